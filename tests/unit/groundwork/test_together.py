"""Several requests at once: all are awaited, and only so many are under way."""

from __future__ import annotations

import asyncio

import pytest

from groundwork.together import few_at_once, together

pytestmark = pytest.mark.looptime


class TroubleError(Exception):
    pass


class Work:
    """Each item takes as many seconds as it says; "bad" fails at once."""

    def __init__(self) -> None:
        self.begun: list[float | str] = []
        self.under_way = self.most = 0

    async def __call__(self, item: float | str) -> float:
        self.begun.append(item)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            if isinstance(item, str):
                raise TroubleError(item)
            await asyncio.sleep(item)
        finally:
            self.under_way -= 1
        return item


async def test_all_are_awaited_before_the_first_error_is_raised() -> None:
    work = Work()
    with pytest.raises(TroubleError, match="bad"):
        await together([work(1), work("bad"), work(3)])
    assert work.under_way == 0
    assert asyncio.get_running_loop().time() == pytest.approx(3)


async def test_so_many_are_under_way_and_a_slow_one_holds_only_its_own_lane() -> None:
    work = Work()
    items = [9.0, *[1.0] * 9]
    assert await few_at_once(2, items, work) == items
    assert work.most == 2
    assert asyncio.get_running_loop().time() == pytest.approx(9)


async def test_none_is_begun_after_one_has_failed() -> None:
    work = Work()
    items: list[float | str] = [5.0, "bad", 1.0, 2.0]
    with pytest.raises(TroubleError, match="bad"):
        await few_at_once(2, items, work)
    assert (work.begun, work.under_way) == ([5.0, "bad"], 0)


async def test_nothing_to_do_takes_no_time() -> None:
    assert await few_at_once(2, [], Work()) == []
