"""`kubectl describe pod` alone says why a pod does not run. A correction in Slurm is noticed.

The stories make Slurm give as many of its reasons as these clusters can produce. Its reasons about
limits of accounts and QoS need slurmdbd, which these clusters do not have: see test_accounts.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.core.pending_reasons import why
from tests.rigs.slurm_conf import LICENSES
from tests.support.world import World

Fix = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Case:
    """`arrange` makes a pod wait for `reason`, and returns a function that removes the cause."""

    reason: str
    arrange: Callable[[World], Awaitable[Fix]]
    words: tuple[str, ...] = ()
    by: str = ""

    def __str__(self) -> str:
        return f"{self.reason} by {self.by}" if self.by else self.reason


async def _no_room(world: World) -> Fix:
    filler = await world.fill()
    await world.create()
    return lambda: world.end_native(filler)


async def _partition_down(world: World) -> Fix:
    await world.set_partition(world.cluster.high_partition, state="DOWN")
    await world.create(slurm={"partition": world.cluster.high_partition})
    return lambda: world.set_partition(world.cluster.high_partition)


async def _time_limit(world: World) -> Fix:
    await world.set_partition(world.cluster.high_partition, max_minutes=5)
    await world.create(slurm={"partition": world.cluster.high_partition, "timeout": "3600"})
    return lambda: world.set_partition(world.cluster.high_partition, max_minutes=90)


async def _reservation(world: World) -> Fix:
    name = await world.reserve(world.cluster.nodes[0], in_seconds=3600)
    await world.create(slurm={"reservation": name})
    return lambda: world.cluster.begin_reservation(name)


async def _partition_inactive(world: World) -> Fix:
    """Slurm accepts no job for an inactive partition, so the pod's job must wait there before."""
    filler = await world.fill()
    await world.create()
    await world.message_with("is pending: Resources")
    await world.set_partition(world.cluster.partition, state="INACTIVE")

    async def fix() -> None:
        await world.end_native(filler)
        await world.set_partition(world.cluster.partition)

    return fix


async def _licenses(world: World) -> Fix:
    ((name, count),) = LICENSES.items()
    user = await world.native_job("user", licenses=f"{name}:{count}")
    await world.job_runs(user)
    await world.create(slurm={"licenses": f"{name}:1"})
    return lambda: world.end_native(user)


async def _held_by_annotation(world: World) -> Fix:
    await world.create(slurm={"hold": "true"})
    return lambda: world.edit(hold=None)


async def _held_by_user(world: World) -> Fix:
    return await _held(world, by_user=True)


async def _held_by_operator(world: World) -> Fix:
    return await _held(world, by_user=False)


async def _held(world: World, *, by_user: bool) -> Fix:
    filler = await world.fill()
    await world.create()
    job = await world.submitted()
    await world.cluster.hold(job.job_id, by_user=by_user)

    async def fix() -> None:
        await world.slurm.update(job.job_id, hold=False)
        await world.end_native(filler)

    return fix


async def _no_such_node_any_more(world: World) -> Fix:
    """Slurm holds the job, and does not release it when the node has its feature again."""
    node = world.cluster.nodes[-1]
    before = await world.slurm.features(node)
    await world.set_features(node, *before, "rare")
    filler = await world.fill()
    await world.create(slurm={"constraints": "rare"})
    await world.message_with("is pending: Resources")
    job = await world.submitted()
    await world.set_features(node, *before)

    async def fix() -> None:
        await world.set_features(node, *before, "rare")
        await world.slurm.update(job.job_id, hold=False)
        await world.end_native(filler)

    return fix


async def _begins_later(world: World) -> Fix:
    later = {"begin_time": {"set": True, "number": int(time.time()) + 3600}}
    now = {"begin_time": {"set": True, "number": int(time.time())}}
    return await _changed(world, later, now)


async def _node_away(world: World) -> Fix:
    node = world.cluster.nodes[-1]
    await world.set_node(node, "DRAIN")
    filler = await world.fill(but=1)
    await world.create()
    job = await world.submitted()
    await world.slurm.update(job.job_id, required_nodes=[node])

    async def fix() -> None:
        await world.end_native(filler)
        await world.restore_node(node)

    return fix


async def _depends(world: World) -> Fix:
    other = await world.native_job("other", hold=True)
    filler = await world.fill()
    await world.create()
    job = await world.submitted()
    await world.slurm.update(job.job_id, dependency=f"afterany:{other}")

    async def fix() -> None:
        await world.end_native(other)
        await world.end_native(filler)

    return fix


async def _depends_in_vain(world: World) -> Fix:
    other = await world.native_job("other", hold=True)
    filler = await world.fill()
    await world.create()
    job = await world.submitted()
    await world.slurm.update(job.job_id, dependency=f"afterok:{other}")
    await world.end_native(other)

    async def fix() -> None:
        await world.slurm.update(job.job_id, dependency="")
        await world.end_native(filler)

    return fix


async def _changed(world: World, change: dict[str, Any], back: dict[str, Any]) -> Fix:
    """An operator changes the placeholder while it waits for room."""
    filler = await world.fill()
    await world.create()
    job = await world.submitted()
    await world.slurm.update(job.job_id, **change)

    async def fix() -> None:
        await world.slurm.update(job.job_id, **back)
        await world.end_native(filler)

    return fix


# These cases run on both releases.
CASES = (
    Case("PartitionDown", _partition_down, ("partition high",)),
    Case("PartitionTimeLimit", _time_limit),
    Case("Reservation", _reservation),
    Case("PartitionInactive", _partition_inactive, ("partition main",)),
    Case("BadConstraints", _no_such_node_any_more, ("priority 0",)),
    Case("ReqNodeNotAvail", _node_away, ("ReqNodeNotAvail, ",)),
)
# Contract tests check these on both releases.
KNOWN_CASES = (
    Case("Resources", _no_room, ("priority ", "partition main")),
    Case("Licenses", _licenses),
    Case("JobHeldUser", _held_by_annotation, ("priority 0",), "annotation"),
    Case("JobHeldUser", _held_by_user, ("priority 0",), "scontrol uhold"),
    Case("JobHeldAdmin", _held_by_operator, ("priority 0",), "scontrol hold"),
    Case("BeginTime", _begins_later, ("expected start ",)),
    Case("Dependency", _depends),
    Case("DependencyNeverSatisfied", _depends_in_vain),
)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_waiting_pod_tells_the_reason_and_runs_once_it_is_gone(
    world: World, case: Case
) -> None:
    await _told_and_put_right(world, case)


@pytest.mark.parametrize("case", KNOWN_CASES, ids=str)
@pytest.mark.live_on("26.05")
async def test_waiting_pod_tells_a_reason_that_contract_tests_know(
    world: World, case: Case
) -> None:
    await _told_and_put_right(world, case)


async def _told_and_put_right(world: World, case: Case) -> None:
    fix = await case.arrange(world)
    known = why(case.reason)
    assert known is not None
    message = await world.message_with(f"is pending: {case.reason}", *case.words)
    assert known.meaning in message
    assert known.remedy in message
    event = await world.event("SlurmPending")
    assert "Slurm job" in event["message"]
    await fix()
    await world.running()


async def test_pod_behind_another_of_equal_size_is_told_priority(world: World) -> None:
    await world.fill()
    await world.create("first", cpus="50")
    await world.message_with("is pending: Resources", name="first")
    await world.create("second", cpus="50")
    await world.message_with(
        "is pending: Priority", "other jobs of its partition first", name="second"
    )


async def test_start_that_slurm_expects_is_told(world: World) -> None:
    await world.fill(time_limit={"set": True, "number": 30})
    await world.create()
    await world.message_with("is pending: Resources", "expected start 20")
