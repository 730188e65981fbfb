"""What Slurm tells people of a job: its user, what it asks for, and each task of an array."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest

from slurmapi import BaseState, FileToken, JobState, SlurmClient, SlurmNoSuchJob
from tests.contract.conftest import live_script_peer
from tests.contract.test_slurmrestd import Jobs, client, clients, jobs
from tests.contract.test_slurmrestd_raw import UNKNOWN_ID, Raw

__all__ = ["client", "clients", "jobs"]

_SECONDS: Final = 60.0
_LATER_SECONDS: Final = 4
_SOON_OVER: Final = "#!/bin/sh\nexec sleep 2\n"


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
async def test_tasks_of_an_array_that_wait_are_one_job_and_each_other_is_one(raw: Raw) -> None:
    async with SlurmClient(raw.peer.url, token=FileToken(raw.peer.token_file)) as client:
        before = set(await client.job_states())
        answer = await raw.submit(flags=None, script=_SOON_OVER, array="0-4%2", hold=None)
        array = answer.json["job_id"]
        states = await _some_begun(client, array, before)
        jobs = {it: await client.listed(it) for it in states}
    assert states[array].base is BaseState.PENDING
    assert [it.job.job_id for (it,) in jobs.values()] == list(jobs)
    assert {it.user for (it,) in jobs.values()} == {"root"}


@pytest.mark.live
async def test_task_of_an_array_gets_its_id_when_it_starts_and_keeps_the_time_of_the_array(
    raw: Raw,
) -> None:
    """So its id may be above that of a job that was submitted later than the array."""
    async with SlurmClient(raw.peer.url, token=FileToken(raw.peer.token_file)) as client:
        before = set(await client.job_states())
        begin = {"set": True, "number": int(time.time()) + _LATER_SECONDS}
        fields = {"script": _SOON_OVER, "array": "0-4%2", "hold": None, "begin_time": begin}
        array = (await raw.submit(flags=None, **fields)).json["job_id"]
        begins, beside = begin["number"], (await raw.submit()).json["job_id"]
        started = set(await _some_begun(client, array, before | {beside})) - {array}
        tasks = [await client.job(it) for it in started]
        other, whole = await client.job(beside), await client.job(array)
    assert (other.array, whole.array) == (None, None)
    assert min(started) > beside > array
    assert other.submit_time is not None
    for task in tasks:
        assert (task.array, task.submit_time) == (array, whole.submit_time)
        assert task.submit_time is not None
        assert task.start_time is not None
        assert task.submit_time <= other.submit_time < begins <= task.start_time


async def _some_begun(client: SlurmClient, array: int, before: set[int]) -> Mapping[int, JobState]:
    """The states of the array's jobs once some of its tasks no longer wait."""
    give_up_at = asyncio.get_running_loop().time() + _SECONDS
    while True:
        states = {it: at for it, at in (await client.job_states()).items() if it not in before}
        if len(states) > 1:
            return states
        if asyncio.get_running_loop().time() > give_up_at:
            pytest.fail(f"no task of the array {array} has begun")
        await asyncio.sleep(0.05)
