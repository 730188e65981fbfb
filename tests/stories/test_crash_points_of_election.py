"""The leader is killed at each kind of write to its Lease, and the next process when it takes over.
Each time one process leads again and writes nothing before. Nothing is lost or doubled.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.faults.cluster import ProxiedCluster
from tests.faults.reaper import Moment, Point, Reaper, kinds_of_election
from tests.stories.clusters import told_on
from tests.support import pods
from tests.support.kube import Object
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

pytestmark = [pytest.mark.live, pytest.mark.slow]

_LEASE: Final = 6.0
_NAME: Final = "slurm-pod-scheduler"
_SECONDS: Final = 60.0


cluster = told_on("live-26.05")  # the election does not depend on the release of Slurm


@pytest.fixture
def scheduler(
    proxied: ProxiedCluster, namespace: str, tmp_path: Path
) -> Iterator[SchedulerProcess]:
    """The scheduler, which takes part in an election and reaches the servers through proxies."""
    flags = (
        "--leader-elect",
        f"--leader-elect-resource-namespace={namespace}",
        f"--leader-elect-lease-duration={_LEASE:g}s",
        "--leader-elect-renew-deadline=5s",
        "--leader-elect-retry-period=500ms",
    )
    with SchedulerProcess(proxied, folder=tmp_path, flags=flags) as process:
        yield process


@dataclass(slots=True)
class _Office:
    """The leadership, which one process after the other has."""

    world: World
    proxied: ProxiedCluster
    reaper: Reaper
    lives: list[int] = field(default_factory=list)
    """The position in the journal at which each process began."""

    async def dies_in(self, point: Point) -> None:
        """Kill the leader at that write."""
        self._doom(point)
        await self._make_due(point.kind)
        await self._dies()

    async def dies_as_it_begins(self, point: Point) -> None:
        """Kill the next process at that write, when it takes over."""
        await self._make_due(point.kind)
        self._doom(point)
        self._launch()
        await self._dies()

    async def taken(self) -> float:
        """Wait until a process leads again. Returns the seconds that this took."""
        self.reaper.dead.clear()
        began = time.monotonic()
        await self._until(lambda: self.world.scheduler.leads)
        return time.monotonic() - began

    async def running(self, name: str) -> Object:
        """The pod once its containers run."""

        async def look() -> Object | None:
            self._go_on()
            pod = await self.world.kube.get("pods", name, namespace=self.world.namespace)
            return pod if pods.phase(pod) == "Running" else None

        return await self.world.until(f"pod {name} runs", look)

    async def lease(self) -> Object | None:
        """The Lease; None if there is none."""
        return await self.world.kube.find("leases", _NAME, namespace=self.world.namespace)

    async def _make_due(self, kind: str) -> None:
        """Make that write happen next: delete the Lease if it is to be created."""
        if kind == "create_lease":
            await self.world.kube.delete("leases", _NAME, namespace=self.world.namespace)

    def _doom(self, point: Point) -> None:
        self.reaper.due[point] += 1
        self.reaper.arm()

    async def _dies(self) -> None:
        await self._until(lambda: self.reaper.dead.is_set() and self.reaper.settled)
        await asyncio.to_thread(self.world.scheduler.kill)

    async def _until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(_SECONDS):
            while not await asyncio.to_thread(holds):
                self._go_on()
                await asyncio.sleep(0.05)

    def _go_on(self) -> None:
        """Start another process if the present one gave up because the machine was slow."""
        if not self.world.scheduler.running and not self.reaper.dead.is_set():
            self._launch()

    def _launch(self) -> None:
        self.lives.append(len(self.proxied.play.journal))
        self.world.scheduler.launch()


@pytest.mark.parametrize("kind", sorted(kinds_of_election()))
async def test_process_may_be_killed_at_any_write_of_its_election(
    world: World, proxied: ProxiedCluster, kind: str
) -> None:
    office = _Office(world, proxied, Reaper(proxied.play, pid=lambda: world.scheduler.pid))
    points = [Point(kind, moment) for moment in Moment]
    await office.taken()
    await world.create("first")
    before = [await office.running("first")]
    for number, point in enumerate(points):
        await office.dies_in(point)
        await world.create(f"meanwhile-{number}")
        await office.dies_as_it_begins(point)
        held = await office.lease()
        took = await office.taken()
        print(f"{point}: another leads after {took:.1f} s")
        assert held is None or took >= _LEASE
        before.append(await office.running(f"meanwhile-{number}"))
    world.unharmed(*before)
    await world.one_placeholder_each()
    assert all(office.reaper.killed[point] == 2 for point in points), office.reaper
    # A process that gave up because the machine was slow may have written nothing.
    assert {_first_write(proxied, since) for since in office.lives} - {None} <= kinds_of_election()
    assert not proxied.play.failures


def _first_write(proxied: ProxiedCluster, since: int) -> str | None:
    writes = (it.name for it in proxied.play.journal[since:] if it.write is not None)
    return next(writes, None)
