"""What the token of a user other than root and SlurmUser allows, by the user's AdminLevel."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest

from slurmapi import JobSubmission, SlurmClient, SlurmDenied, StaticToken
from tests.contract.conftest import COMPLETING_SECONDS, is_over
from tests.rigs.slurm import SlurmRig

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("accounts")]

_USER: Final = "bob"
_ANOTHER_UID: Final = 2001
_numbers = itertools.count(1)


@pytest.fixture(params=["26", "24"], ids=["live-26.05", "live-24.11"])
def rig(request: pytest.FixtureRequest) -> Iterator[SlurmRig]:
    """A Slurm that knows accounts. Afterwards the user's AdminLevel is None again."""
    found: SlurmRig = request.getfixturevalue(f"live_accounted_slurm_{request.param}")
    yield found
    _set_level(found, "None")


def _set_level(rig: SlurmRig, level: str) -> None:
    rig.call("sacctmgr", "--immediate", "modify", "user", _USER, "set", f"adminlevel={level}")


@pytest.fixture
async def client(rig: SlurmRig) -> AsyncIterator[SlurmClient]:
    """A client with the user's token."""
    async with SlurmClient(rig.url, token=StaticToken(rig.token(_USER))) as client:
        yield client


def _placeholder(rig: SlurmRig, **more: Any) -> JobSubmission:
    external = rig.major != "24.11"
    return JobSubmission(
        name=f"level-{next(_numbers)}",
        external=external,
        script=None if external else "#!/bin/sh\nexec sleep infinity\n",
        cpus=1,
        memory_mib=100,
        **({"admin_comment": '{"v":1}'} | more),
    )


async def _ended(client: SlurmClient, job_id: int) -> None:
    async with asyncio.timeout(COMPLETING_SECONDS):
        while True:
            if is_over((await client.job(job_id)).state):
                return
            await asyncio.sleep(0.05)


async def test_administrator_owns_and_ends_placeholders(rig: SlurmRig, client: SlurmClient) -> None:
    _set_level(rig, "Administrator")
    job_id = (await client.submit(_placeholder(rig))).job_id
    assert (await client.job(job_id)).admin_comment == '{"v":1}'
    await client.update_job(job_id, admin_comment='{"v":2}')
    assert (await client.job(job_id)).admin_comment == '{"v":2}'
    assert await client.nodes()
    assert await client.cancel([job_id]) == {}
    await _ended(client, job_id)


async def test_operator_writes_no_admin_comment(rig: SlurmRig, client: SlurmClient) -> None:
    _set_level(rig, "Operator")
    with pytest.raises(SlurmDenied) as denied:
        await client.submit(_placeholder(rig))
    assert denied.value.error_number == 2002


@pytest.mark.parametrize("level", ["Operator", "Administrator"])
async def test_neither_submits_for_another_user(
    rig: SlurmRig, client: SlurmClient, level: str
) -> None:
    _set_level(rig, level)
    with pytest.raises(SlurmDenied) as denied:
        await client.submit(_placeholder(rig, admin_comment="", user_id=_ANOTHER_UID))
    assert denied.value.error_number == 2010
