"""`kubectl describe pod` alone says why a pod does not run; putting it right in Slurm is noticed.

Slurm is brought to say as many of its reasons as these clusters can. What it says of limits of
accounts and QoS needs slurmdbd, which they do not have.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from scheduler.core.pending import why
from tests.support.world import World

pytestmark = pytest.mark.timeout(150)

Fix = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Case:
    """`arrange` makes a pod wait, and gives what puts it right."""

    reason: str
    arrange: Callable[[World], Awaitable[Fix]]
    words: tuple[str, ...] = ()


async def _no_room(world: World) -> Fix:
    filler = await world.fill()
    await world.create()
    return lambda: world.end_native(filler)


async def _partition_down(world: World) -> Fix:
    await world.set_partition(world.cluster.high_partition, up=False)
    await world.create(slurm={"partition": world.cluster.high_partition})
    return lambda: world.set_partition(world.cluster.high_partition)


async def _time_limit(world: World) -> Fix:
    await world.set_partition(world.cluster.high_partition, max_minutes=5)
    await world.create(slurm={"partition": world.cluster.high_partition, "timeout": "3600"})
    return lambda: world.set_partition(world.cluster.high_partition, max_minutes=90)


async def _reservation(world: World) -> Fix:
    name = await world.reserve(world.cluster.nodes[0], in_seconds=12)
    await world.create(slurm={"reservation": name})
    return _time_passes


async def _time_passes() -> None:
    """The wait for what comes is what sees it through."""


async def _held(world: World) -> Fix:
    return await _changed(world, {"hold": True}, {"hold": False})


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
    """An operator changes the placeholder while there is no room for it."""
    filler = await world.fill()
    await world.create()
    job = await world.submitted()
    await world.slurm.update(job.job_id, **change)

    async def fix() -> None:
        await world.slurm.update(job.job_id, **back)
        await world.end_native(filler)

    return fix


CASES = (
    Case("Resources", _no_room, ("priority ", "partition main")),
    Case("PartitionDown", _partition_down, ("partition high",)),
    Case("PartitionTimeLimit", _time_limit),
    Case("Reservation", _reservation),
    Case("JobHeldAdmin", _held, ("priority 0",)),
    Case("BeginTime", _begins_later, ("expected start ",)),
    Case("ReqNodeNotAvail", _node_away, ("ReqNodeNotAvail, ",)),
    Case("Dependency", _depends),
    Case("DependencyNeverSatisfied", _depends_in_vain),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.reason)
async def test_waiting_pod_tells_the_reason_and_runs_once_it_is_gone(
    world: World, case: Case
) -> None:
    fix = await case.arrange(world)
    known = why(case.reason)
    assert known is not None
    message = await world.told(f"is pending: {case.reason}", *case.words)
    assert known.meaning in message
    assert known.remedy in message
    event = await world.event("SlurmPending")
    assert "Slurm job" in event["message"]
    await fix()
    await world.running()


async def test_pod_behind_another_of_equal_size_is_told_priority(world: World) -> None:
    await world.fill()
    await world.create("first", cpus="50")
    await world.told("is pending: Resources", name="first")
    await world.create("second", cpus="50")
    await world.told("is pending: Priority", "jobs of higher priority", name="second")


async def test_start_that_slurm_expects_is_told(world: World) -> None:
    await world.fill(time_limit={"set": True, "number": 30})
    await world.create()
    await world.told("is pending: Resources", "expected start 20")
