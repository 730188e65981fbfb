from __future__ import annotations

import asyncio

import pytest

from scheduler.kube.credentials import Credentials, CredentialsError

pytestmark = pytest.mark.looptime


class Source:
    def __init__(self, *, seconds: float = 0.0) -> None:
        self.asked: list[bool] = []
        self.seconds = seconds
        self.broken = False

    async def __call__(self, force: bool) -> str:
        self.asked.append(force)
        await asyncio.sleep(self.seconds)
        if self.broken:
            raise CredentialsError("the plugin has gone away")
        return f"Bearer {len(self.asked)}"


async def test_periodic_source_is_asked_again_once_a_minute() -> None:
    source = Source()
    credentials = Credentials("Bearer 0", source, periodic=True)
    assert await credentials.header() == "Bearer 0"
    await asyncio.sleep(59)
    assert await credentials.header() == "Bearer 0"
    await asyncio.sleep(1)
    assert await credentials.header() == "Bearer 1"
    assert await credentials.header() == "Bearer 1"
    assert source.asked == [False]


async def test_static_source_is_left_alone() -> None:
    source = Source()
    credentials = Credentials("Bearer 0", source, periodic=False)
    await asyncio.sleep(3600)
    assert await credentials.header() == "Bearer 0"
    assert source.asked == []


async def test_many_callers_share_one_refresh_and_use_the_old_value_meanwhile() -> None:
    source = Source(seconds=5)
    credentials = Credentials("Bearer 0", source, periodic=True)
    await asyncio.sleep(100)
    values = await asyncio.gather(*(credentials.header() for _ in range(20)))
    assert sorted(values, key=str) == ["Bearer 0"] * 19 + ["Bearer 1"]
    assert len(source.asked) == 1


async def test_many_refusals_of_one_value_share_one_renewal() -> None:
    source = Source(seconds=5)
    credentials = Credentials("Bearer 0", source, periodic=False)
    assert all(await asyncio.gather(*(credentials.renew("Bearer 0") for _ in range(20))))
    assert source.asked == [True]


async def test_refusal_of_an_older_value_needs_no_renewal() -> None:
    source = Source()
    credentials = Credentials("Bearer 7", source, periodic=False)
    assert await credentials.renew("Bearer 6")
    assert source.asked == []


async def test_broken_source_leaves_the_value_and_is_not_asked_at_each_request() -> None:
    source = Source()
    source.broken = True
    credentials = Credentials("Bearer 0", source, periodic=True)
    await asyncio.sleep(60)
    assert [await credentials.header() for _ in range(5)] == ["Bearer 0"] * 5
    assert len(source.asked) == 1
    assert not await credentials.renew("Bearer 0")


async def test_hanging_source_is_given_up() -> None:
    source = Source(seconds=1e6)
    credentials = Credentials("Bearer 0", source, periodic=False)
    async with asyncio.timeout(31):
        assert not await credentials.renew("Bearer 0")
