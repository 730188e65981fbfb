"""Updates of a pending job have the same effects on the models and on the real servers.

The jobs are external on 26.05 and batch jobs on 24.11. None of the four Slurms has slurmdbd.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from slurmapi import BaseState, FileToken, Job, JobSubmission, SlurmClient, SlurmRefused
from tests.contract.conftest import COMPLETING_SECONDS, is_over, scripts_run

_numbers = itertools.count(1)


class Peer(Protocol):
    url: str
    token_file: Path
    major: str
    nodes: tuple[str, ...]
    partition: str

    def script_runs(self, job_id: int) -> bool: ...


@dataclass(frozen=True)
class Waiting:
    """A job that waits for its older twin, `first`, of the same name."""

    client: SlurmClient
    first: int
    job_id: int

    async def update(self, **changes: Any) -> Job:
        await self.client.update_job(self.job_id, **changes)
        return await self.now()

    async def refused(self, **changes: Any) -> int:
        with pytest.raises(SlurmRefused) as refusal:
            await self.client.update_job(self.job_id, **changes)
        return refusal.value.error_number

    async def now(self) -> Job:
        return await self.client.job(self.job_id)

    async def until(self, holds: Callable[[Job], bool], *, job_id: int = 0) -> Job:
        # Jobs of earlier tests, also of stories, may still be COMPLETING.
        async with asyncio.timeout(COMPLETING_SECONDS):
            while True:
                job = await self.client.job(job_id or self.job_id)
                if holds(job):
                    return job
                await asyncio.sleep(0.05)


@pytest.fixture
async def waiting(slurm_peer: Peer) -> AsyncIterator[Waiting]:
    external = slurm_peer.major != "24.11"
    twin = JobSubmission(
        name=f"twins-{next(_numbers)}-{id(slurm_peer)}",
        external=external,
        script=None if external else "#!/bin/sh\nexec sleep infinity\n",
        admin_comment='{"v":1}',
        comment="before",
        cpus=1,
        memory_mib=100,
        partition=slurm_peer.partition,
        time_limit_minutes=60,
    )
    token = FileToken(slurm_peer.token_file)
    async with SlurmClient(slurm_peer.url, token=token) as client:
        made = [(await client.submit(twin)).job_id for _ in range(2)]
        waiting = Waiting(client, made[0], made[1])
        await waiting.until(lambda job: job.state_reason == "Dependency")
        yield waiting
        await scripts_run(client, slurm_peer.script_runs, made)
        assert await client.cancel(made) == {}
        for job_id in made:
            await waiting.until(lambda job: is_over(job.state), job_id=job_id)


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"comment": "after"}, {"comment": "after"}),
        ({"comment": ""}, {"comment": ""}),
        ({"admin_comment": '{"v":2}'}, {"admin_comment": '{"v":2}'}),
        ({"partition": "high"}, {"partition": "high"}),
        ({"time_limit_minutes": 7}, {"time_limit_minutes": 7}),
        ({"priority": 55}, {"priority": 55}),
        ({"priority": 0}, {"priority": 0, "held": True, "state_reason": "JobHeldAdmin"}),
        ({"nice": 100}, {"nice": 100}),
        ({"nice": -100}, {"nice": -100}),
        ({"held": True}, {"held": True, "state_reason": "JobHeldAdmin", "priority": 0}),
        ({"reservation": ""}, {"reservation": ""}),
        (
            {"comment": "all", "admin_comment": "{}", "partition": "high", "nice": 3},
            {"comment": "all", "admin_comment": "{}", "partition": "high", "nice": 3},
        ),
    ],
    ids="+".join,
)
async def test_pending_job_takes(
    waiting: Waiting, changes: dict[str, Any], shown: dict[str, Any]
) -> None:
    job = await waiting.update(**changes)
    assert {name: getattr(job, name) for name in shown} == shown
    assert job.state.base is BaseState.PENDING


async def test_partition_is_taken_each_time_in_spite_of_a_stale_errno(waiting: Waiting) -> None:
    for number in range(10):
        wanted = ("high", "main")[number % 2]
        assert (await waiting.update(partition=wanted)).partition == wanted


async def test_account_and_qos_are_taken_and_ignored_without_slurmdbd(waiting: Waiting) -> None:
    before = await waiting.now()
    for number in range(4):
        job = await waiting.update(account=f"account-{number}", qos=f"qos-{number}")
        assert (job.account, job.qos) == (before.account, before.qos)


async def test_priority_can_be_left_to_slurm_again(waiting: Waiting) -> None:
    assert (await waiting.update(priority=55)).priority == 55
    assert (await waiting.update(priority_reset=True)).priority not in {None, 0, 55}


async def test_nice_beside_a_priority_that_was_set_is_ignored(waiting: Waiting) -> None:
    job = await waiting.update(priority=55, nice=9)
    assert (job.priority, job.nice) == (55, 0)


async def test_refused_priority_of_a_held_job_leaves_the_rest_changed(waiting: Waiting) -> None:
    await waiting.update(held=True)
    assert await waiting.refused(comment="after", priority=5) == 2042
    assert await waiting.refused(held=False, priority=5) == 2042
    job = await waiting.now()
    assert (job.comment, job.held) == ("after", True)


async def test_released_job_has_a_priority_of_slurms_own(waiting: Waiting) -> None:
    await waiting.update(priority=55)
    await waiting.update(held=True)
    job = await waiting.update(held=False)
    assert not job.held
    assert job.priority not in {None, 0, 55}


@pytest.mark.parametrize(
    ("changes", "number"),
    [({"partition": "nowhere"}, 2000), ({"reservation": "none-such"}, 2053)],
    ids=["partition", "reservation"],
)
async def test_refused_change_leaves_the_job_as_it_was(
    waiting: Waiting, changes: dict[str, Any], number: int
) -> None:
    before = await waiting.now()
    assert await waiting.refused(**changes) == number
    job = await waiting.now()
    assert (job.partition, job.reservation) == (before.partition, before.reservation)


async def test_partition_of_a_running_job_cannot_be_changed(waiting: Waiting) -> None:
    await waiting.until(lambda job: job.state.base is BaseState.RUNNING, job_id=waiting.first)
    with pytest.raises(SlurmRefused) as refusal:
        await waiting.client.update_job(waiting.first, partition="high")
    assert refusal.value.error_number in {2073, 2020}
