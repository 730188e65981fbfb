"""A start looks at ended jobs only for pods that need it, at so many, and takes only its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace as with_fields

from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob
from scheduler.slurm.ended_jobs import EndedJobs, Unexplained
from scheduler.slurm.submit_times import SubmitTimes
from slurmapi import BaseState
from tests.unit.core.things import KEY, OURS, record
from tests.unit.core.things import tag as tag_of

pytestmark = pytest.mark.looptime
RUNS = Unexplained({KEY: None})
NOBODY = Unexplained({})


async def _no_time() -> float | None:
    return None


class Looks:
    """Slurm's ended jobs, and which of them were looked at and adopted."""

    def __init__(self, *jobs: TaggedJob) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self.looked: list[int] = []
        self.adopted: list[int] = []

    async def read(self, job_id: int) -> TaggedJob | None:
        await asyncio.sleep(0.001)
        self.looked.append(job_id)
        return self.jobs.get(job_id)

    def over(self, unexplained: Callable[[], Unexplained]) -> EndedJobs:
        async def found() -> Unexplained:
            return unexplained()

        return EndedJobs(
            self.read,
            owner=OURS,
            unexplained=found,
            adopt=lambda job: self.adopted.append(job.job_id),
            submit_times=SubmitTimes(_no_time, clock=asyncio.get_running_loop().time),
        )


def ended(job_id: int, *, tag: str, submit_time: int | None = None) -> TaggedJob:
    return record(BaseState.TIMEOUT, job_id=job_id, admin_comment=tag, submit_time=submit_time)


@pytest.mark.parametrize(
    ("job", "taken"),
    [
        (ended(4, tag=tag_of()), True),
        (ended(4, tag=tag_of(owner=Owner("another", OURS.scheduler))), False),
        (ended(4, tag=tag_of(owner=Owner(OURS.cluster, "another"))), False),
        (ended(4, tag=tag_of(given_back=True)), False),
        (ended(4, tag=tag_of(uids=("another",))), False),
        (ended(4, tag=""), False),
        (record(BaseState.RUNNING, job_id=4), False),
    ],
    ids=[
        *("ours", "another cluster's", "another scheduler's", "given back", "another pod's"),
        *("a native one", "one that lives"),
    ],
)
async def test_job_of_the_pod_itself_is_taken_and_no_other(job, taken):
    looks = Looks(job)
    await looks.over(lambda: RUNS).look_through([4])
    assert looks.looked == [4]
    assert looks.adopted == ([4] if taken else [])


async def test_newest_jobs_are_looked_at_and_no_more_than_one_start_may():
    looks = Looks()
    ended_jobs = looks.over(lambda: RUNS)
    await ended_jobs.look_through(range(20_000))
    assert sorted(looks.looked) == list(range(15_000, 20_000))
    await ended_jobs.look_through(range(20_000))
    assert len(looks.looked) == 5000, "once for each process"


@pytest.mark.parametrize(("started", "taken"), [(1, [4]), (-3600, [])])
async def test_looks_go_on_below_tasks_of_an_array_that_ran_after_the_pod_came(started, taken):
    created = datetime(2030, 1, 1, tzinfo=UTC)
    at = int(created.timestamp())
    tasks = (
        with_fields(ended(it, tag=""), array=1, submit_time=at - 3600, start_time=at + started)
        for it in range(10, 18)
    )
    looks = Looks(ended(4, tag=tag_of(), submit_time=at), *tasks)
    await looks.over(lambda: Unexplained({KEY: created})).look_through(looks.jobs)
    assert looks.adopted == taken


async def test_looks_end_soon_after_each_pod_has_its_job():
    looks = Looks(ended(990, tag=tag_of()))
    await looks.over(lambda: NOBODY if looks.adopted else RUNS).look_through(range(1000))
    assert looks.adopted == [990]
    assert len(looks.looked) <= 100


async def test_nothing_is_looked_at_before_the_claims_of_pods_are():
    loop = asyncio.get_running_loop()
    looks = Looks()
    weighed_at = loop.time() + 5.0

    def unexplained() -> Unexplained:
        return NOBODY if loop.time() >= weighed_at else replace(RUNS, pending=True)

    await looks.over(unexplained).look_through(range(1000))
    assert looks.looked == []


async def test_claims_that_nobody_can_look_at_hold_up_a_start_for_half_a_minute():
    loop = asyncio.get_running_loop()
    looks = Looks(ended(4, tag=tag_of()))
    began = loop.time()
    async with asyncio.timeout(60):
        await looks.over(lambda: replace(RUNS, pending=True)).look_through([4])
    assert 29 <= loop.time() - began <= 32
    assert looks.adopted == [4]
