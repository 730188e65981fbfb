"""What Slurm tells people of a job: its user, what it asks for, and each task of an array."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from slurmapi import BaseState, FileToken, ListedJob, SlurmClient, SlurmNoSuchJob
from tests.contract.conftest import live_script_peer
from tests.contract.test_slurmrestd import Jobs, client, clients, jobs
from tests.contract.test_slurmrestd_raw import UNKNOWN_ID, Raw

__all__ = ["client", "clients", "jobs"]

_SECONDS: Final = 60.0
_SOON_OVER: Final = "#!/bin/sh\nexec sleep 1\n"


async def test_listed_job_has_its_user_and_all_that_it_asks_for(jobs: Jobs) -> None:
    job_id = await jobs.submit(cpus=4, memory_mib=1024, held=True)
    (listed,) = await jobs.client.listed(job_id)
    assert listed.user == "root"
    assert {"cpu=4", "mem=1G", "node=1"} <= set(listed.tres_requested.split(","))
    assert listed.job == await jobs.client.job(job_id)


async def test_job_that_slurm_does_not_know_is_not_listed(client: SlurmClient) -> None:
    with pytest.raises(SlurmNoSuchJob):
        await client.listed(UNKNOWN_ID)


@pytest.fixture(params=["live_slurm_26", "live_slurm_24"])
async def raw(request: pytest.FixtureRequest) -> AsyncIterator[Raw]:
    """Real nodes with a slurmd: the models have no arrays."""
    peer: Any = live_script_peer(request.getfixturevalue(request.param))
    requests = Raw(peer)
    yield requests
    await requests.cancel_all()


@pytest.mark.live
async def test_tasks_of_an_array_that_wait_are_one_and_the_others_each_one(raw: Raw) -> None:
    array: dict[str, Any] = {"flags": None, "script": _SOON_OVER, "array": "0-1"}
    async with SlurmClient(raw.peer.url, token=FileToken(raw.peer.token_file)) as client:
        held = (await raw.submit(**array)).json["job_id"]
        (waiting,) = await client.listed(held)
        assert (waiting.job.state.base, waiting.job.job_id) == (BaseState.PENDING, held)
        assert held in await client.job_states()
        started = (await raw.submit(**array, hold=None)).json["job_id"]
        tasks = await _split_up(client, started)
    assert len({it.job.job_id for it in tasks}) == 2
    assert {it.user for it in tasks} == {"root"}


async def _split_up(client: SlurmClient, job_id: int) -> tuple[ListedJob, ...]:
    """The tasks of an array once each has a record of its own."""
    give_up_at = asyncio.get_running_loop().time() + _SECONDS
    while len(tasks := await client.listed(job_id)) < 2:
        if asyncio.get_running_loop().time() > give_up_at:
            pytest.fail(f"not in time: {tasks}")
        await asyncio.sleep(0.05)
    return tasks
