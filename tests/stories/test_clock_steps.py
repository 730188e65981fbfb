"""The clock of the scheduler's machine is set an hour ahead, behind, and back again. Running pods
run on, and the scheduler reacts to everything that happens then as usual.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.stories.clusters import LIVE, told_on
from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.kube import Object
from tests.support.own_clock import OwnClock, seconds_off
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

pytestmark = [pytest.mark.live_on("26.05"), pytest.mark.live]

_HOUR: Final = 3600
# Shorter than the step: by a clock that is an hour ahead, the job has ended already.
_HALF_AN_HOUR: Final = {"timeout": "1800"}


cluster = told_on(*LIVE)


@pytest.fixture
def scheduler(
    cluster: Cluster, namespace: str, tmp_path: Path, own_clock: OwnClock
) -> Iterator[SchedulerProcess]:
    """A leader, so it writes its clock's time of day every second. It may renew late."""
    flags = (
        "--leader-elect",
        f"--leader-elect-resource-namespace={namespace}",
        "--leader-elect-lease-duration=60s",
        "--leader-elect-renew-deadline=40s",
        "--leader-elect-retry-period=1s",
    )
    with SchedulerProcess(
        cluster, folder=tmp_path, flags=flags, launch=own_clock.launch
    ) as process:
        yield process


@pytest.mark.parametrize("off", [_HOUR, -_HOUR], ids=["ahead", "behind"])
async def test_clock_that_is_set_ends_no_pod_and_holds_nothing_up(
    world: World, own_clock: OwnClock, off: int
) -> None:
    steady = await world.small_ones("steady-0", "steady-1")
    await world.create("timed", cpus="1", slurm=_HALF_AN_HOUR)
    await world.running("timed")
    timed = await world.pod_that(
        "says when it ends", lambda it: bool(pods.annotation(it, pods.ENDS_AT)), name="timed"
    )
    jobs = await world.one_job_id_each()
    process, lease = world.scheduler.pid, await _lease(world)
    for number, step in enumerate((off, 0)):
        await _step_amid_work(world, own_clock, step, number=number)
    assert (world.scheduler.running, world.scheduler.pid) == (True, process)
    led = await _lease(world)
    assert [led["spec"].get(it) for it in _LED] == [lease["spec"].get(it) for it in _LED]
    world.unharmed(*steady, timed)
    assert await world.one_job_id_each() == jobs
    assert _ends_told(world, "timed") == {pods.annotation(timed, pods.ENDS_AT)}


@pytest.mark.parametrize("off", [_HOUR, -_HOUR], ids=["ahead", "behind"])
async def test_warned_pod_has_its_grace_by_whatever_clock(
    world: World, own_clock: OwnClock, off: int
) -> None:
    await world.create(grace=20, slurm={"partition": world.cluster.grace_partition})
    pod = await world.running()
    own_clock.set_off(off)
    await world.until(f"the clock is {off} s off", lambda: _is_off(world, off))
    await world.preempt(pods.node_of(pod))
    await world.gone()
    assert "(GraceTime)" in (await world.event("Preempted"))["message"]
    await world.removed(pod)
    leaving = [seen.pod for seen in world.history.of("train") if pods.leaving(seen.pod)]
    grace = leaving[0]["metadata"]["deletionGracePeriodSeconds"]
    # Only the job's record has the warning. A look comes every quarter of the GraceTime, 3.75 s.
    # Slurm's times are whole seconds, so what is left then is between 10.2 and 15 s. A second
    # remains for the look and the deletion.
    assert 8 < grace <= 15, "the grace partition gives 15 s"


async def _step_amid_work(world: World, clock: OwnClock, step: int, *, number: int) -> None:
    """Set the clock while one pod waits, and create another one afterwards; both start and end."""
    before, after = f"before-{number}", f"after-{number}"
    await world.set_partition(world.cluster.partition, state="DOWN")
    await world.create(before, cpus="1")
    await world.waiting(before)
    clock.set_off(step)
    await world.until(f"the clock is {step} s off", lambda: _is_off(world, step))
    await world.create(after, cpus="1")
    await world.waiting(after)
    await world.set_partition(world.cluster.partition)
    started = [await world.running(name) for name in (before, after)]
    one, other = [await world.placeholder(pod) for pod in started]
    await world.delete(before)
    await world.gone(before)
    await world.job_ended(one.job_id, state="CANCELLED")
    await world.slurm.cancel(other.job_id)
    await world.gone(after)
    await world.event("PlaceholderCancelled", name=after)
    await world.until("it is ready and holds no pod back", lambda: _is_well(world))


_LED: Final = ("holderIdentity", "leaseTransitions", "acquireTime")


async def _lease(world: World) -> Object:
    return await world.kube.get("leases", "slurm-pod-scheduler", namespace=world.namespace)


async def _is_off(world: World, seconds: int) -> bool:
    return abs(seconds_off(await _lease(world)) - seconds) < _HOUR / 4


async def _is_well(world: World) -> bool:
    metrics = await asyncio.to_thread(world.scheduler.metrics)
    wanted = {"slurm_pod_scheduler_brake_held_pods": 0, "slurm_pod_scheduler_ready": 1}
    return wanted.items() <= metrics.items()


def _ends_told(world: World, name: str) -> set[str | None]:
    """All values that the pod's annotation about its end has had."""
    told = [pods.annotation(seen.pod, pods.ENDS_AT) for seen in world.history.of(name)]
    return {it for it in told if it}
