"""The scheduler is killed at its writes to real servers: before a write is sent, on its way, after
the server has acted, and after the answer. The next process goes on; nothing is lost or doubled.

tests/crash lists the points of a run without a crash. Here the scheduler is killed once at each of
these moments of each kind of write, in a run that goes on. With each Slurm these kinds are the
writes to Slurm, the binding and the ways to end pods; with the newer Slurm also the messages to
pods.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.audit.judge import DEFAULT
from tests.faults.cluster import ProxiedCluster
from tests.faults.reaper import Moment, Point, Reaper, kinds_of_work
from tests.stories.clusters import LIVE, told_on
from tests.support import pod_group, pods
from tests.support.cluster import Cluster
from tests.support.kube import Object
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import Record
from tests.support.world import World

pytestmark = [pytest.mark.timeout(600), pytest.mark.live, pytest.mark.slow]

# In each round a pod loses its job. The brake of a killed process forgets the earlier ones.
_MOST_ROUNDS: Final = DEFAULT.brake_minimum
_TOLD_AGAIN: Final = "patch_event"
# Writes to Kubernetes that do not depend on the release of Slurm.
_TOLD: Final = frozenset({"create_event", _TOLD_AGAIN, "patch_group_status", "patch_pod_status"})
# The job of a pod that went while the scheduler was dead stays for 33 s, again after each kill.
_SECONDS: Final = 300.0


cluster = told_on(*LIVE)  # tests/crash covers the models


@pytest.fixture
def policy(cluster: Cluster) -> str:
    """The eviction policy: one of the two for each release of Slurm, so that both are tested."""
    return "delete" if cluster.placeholder_mode == "external" else "budget"


@pytest.fixture
def scheduler(proxied: ProxiedCluster, policy: str, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """The scheduler, which reaches the servers only through the proxies."""
    flags = (f"--eviction-policy={policy}",)
    with SchedulerProcess(proxied, folder=tmp_path, flags=flags) as process:
        yield process


async def test_scheduler_may_be_killed_at_any_write(
    world: World, proxied: ProxiedCluster, policy: str
) -> None:
    kinds = kinds_of_work(policy)
    if world.cluster.placeholder_mode == "script":
        kinds -= _TOLD
    points = [Point(kind, moment) for kind in kinds for moment in Moment]
    await pod_group.define(world)
    reaper = Reaper(proxied.play, pid=lambda: world.scheduler.pid)
    reaper.due.update(dict.fromkeys(points, 1))
    reaper.arm()
    async with asyncio.TaskGroup() as group:
        tasks = (
            group.create_task(_keep_alive(world.scheduler, reaper), name="deployment"),
            group.create_task(_never_right(world), name="owner"),
        )
        try:
            for number in range(_MOST_ROUNDS):
                await _round(world, number)
                if reaper.kinds_due <= {_TOLD_AGAIN}:
                    break
            told = partial(_is_done_with, reaper, _TOLD_AGAIN)
            await world.until("all is told again", told, seconds=_SECONDS)
        finally:
            reaper.disarm()
            if reaper.dead.is_set():
                await asyncio.to_thread(reaper.revived.wait, _SECONDS)
            for task in tasks:
                task.cancel()
    print(f"killed {reaper.killed.total()} times in {number + 1} rounds: {reaper}")
    assert not reaper.missed(points), reaper.killed
    assert not proxied.play.failures


async def _keep_alive(scheduler: SchedulerProcess, reaper: Reaper) -> None:
    """Start the scheduler again whenever it was killed, as a Deployment would."""
    while True:
        if await asyncio.to_thread(reaper.dead.wait, 0.2):
            await asyncio.to_thread(scheduler.kill)
            # What the killed process has sent must arrive before the next process starts.
            while not reaper.settled:  # noqa: ASYNC110 - a proxy in another loop
                await asyncio.sleep(0.02)
            await asyncio.to_thread(scheduler.start)
            reaper.arm()


async def _is_done_with(reaper: Reaper, kind: str) -> bool:
    return kind not in reaper.kinds_due


async def _never_right(world: World) -> None:
    """Edit a pod again and again, each time with one of two mistakes."""
    await world.create("wrong", slurm={"timeout": "soon"})
    for mistake in itertools.cycle(("soon", "later")):
        await world.edit("wrong", timeout=mistake)
        await _that(world, "wrong", partial(_is_told, mistake))


async def _round(world: World, number: int) -> None:
    """Create some pods, which run, are edited, lose their job, and go."""
    runs, taken, edited = (f"{it}-{number}" for it in ("runs", "taken", "edited"))
    pair = await _pair(world, number)
    await world.create(runs)
    await world.create(taken)
    await world.create(edited, slurm={"hold": "true", "timeout": "600", "comment": "before"})
    await _that(world, edited, _names_a_job)
    await world.edit(edited, comment="after")
    await world.until("the edit has arrived", lambda: _commented(world, edited), seconds=_SECONDS)
    await world.edit(edited, timeout=None)
    await _that(world, taken, _runs)
    await world.until("no twin is left", lambda: _one_job(world, taken), seconds=_SECONDS)
    for job in await _live(world, taken):
        await world.slurm.cancel(job.job_id)
    await world.edit(edited, hold=None)
    for name in pair:  # before one goes: a gang that is not bound yet waits for all its pods
        await _that(world, name, _runs)
    for name in (runs, edited, *pair):
        before = await _that(world, name, _runs)
        world.unharmed(before)
        await world.delete(name)
    for name in (runs, taken, edited, *pair):
        await world.until(f"{name} is gone", partial(_gone, world, name), seconds=_SECONDS)
    await world.until("nothing is left", lambda: _nothing_left(world), seconds=_SECONDS)


async def _pair(world: World, number: int) -> list[str]:
    """Two pods of a PodGroup, which need a node each. None with the older
    Slurm, where messages are not tried.
    """
    if world.cluster.placeholder_mode == "script":
        return []
    member = await pod_group.create(world, f"pair-{number}", size=2)
    names = [f"pair-{number}-{it}" for it in range(2)]
    for name in names:
        await world.create(name, cpus="1", memory="100Mi", **member)
    return names


async def _that(world: World, name: str, holds: Callable[[Object], bool]) -> Object:
    async def look() -> Object | None:
        found = await world.kube.find("pods", name, namespace=world.namespace)
        return found if found is not None and holds(found) else None

    return await world.until(f"pod {name}: {holds}", look, seconds=_SECONDS)


def _runs(pod: Object) -> bool:
    return pods.phase(pod) == "Running"


def _is_told(mistake: str, pod: Object) -> bool:
    return f"'{mistake}'" in pods.why(pod)


def _names_a_job(pod: Object) -> bool:
    return pods.annotation(pod, pods.JOB_ID) is not None


async def _live(world: World, name: str) -> list[Record]:
    jobs = await world.slurm.live_placeholders(world.namespace)
    return [it for it in jobs if it.tag.get("unit") == name]


async def _one_job(world: World, name: str) -> bool:
    return len(await _live(world, name)) == 1


async def _commented(world: World, name: str) -> bool:
    return any(it.raw["comment"] == "after" for it in await _live(world, name))


async def _gone(world: World, name: str) -> bool:
    return await world.kube.find("pods", name, namespace=world.namespace) is None


async def _nothing_left(world: World) -> bool:
    return not await world.slurm.live_placeholders(world.namespace)
