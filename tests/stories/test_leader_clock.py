"""The clock of the leader's machine is an hour behind the standby's, then an hour ahead. The leader
leads as long as it renews, and the standby takes over soon after its end, whatever times the Lease
has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from tests.stories.clusters import told_on
from tests.support.cluster import Cluster
from tests.support.kube import Kube, Object
from tests.support.own_clock import OwnClock, seconds_off
from tests.support.replicas import Replica, pair, until
from tests.support.scheduler import SchedulerProcess
from tests.support.world import SECONDS, World

pytestmark = pytest.mark.live

_HOUR: Final = 3600
# A crowded machine must not keep the leader from renewing for longer than its deadline.
_LEASE: Final = 20.0
_TIMING: Final = (
    f"--leader-elect-lease-duration={_LEASE}s",
    "--leader-elect-renew-deadline=18s",
    "--leader-elect-retry-period=1s",
)
# Time enough for several renewals.
_FEW: Final = 4.0


# The election does not depend on the release of Slurm.
cluster = told_on("live-26.05")


@pytest.fixture
async def replicas(
    cluster: Cluster, kube: Kube, namespace: str, tmp_path: Path, own_clock: OwnClock
) -> AsyncIterator[tuple[Replica, Replica]]:
    """The first one leads, and has a clock of its own. The second one stands by."""
    opening = pair(
        cluster,
        kube,
        folder=tmp_path,
        namespace=namespace,
        flags=_TIMING,
        launch=own_clock.launch,
    )
    async with opening as found:
        yield found


@pytest.fixture
def scheduler(replicas: tuple[Replica, Replica]) -> SchedulerProcess:
    """The scheduler whose log is shown when a story fails."""
    return replicas[1].process


@pytest.mark.slow
async def test_standby_goes_by_its_own_clock_and_not_by_the_time_in_the_lease(
    world: World, replicas: tuple[Replica, Replica], own_clock: OwnClock
) -> None:
    one, two = replicas
    await world.create("first")
    first = await world.running("first")
    led = (await _lease(world))["spec"]
    own_clock.set_off(-_HOUR)
    await _leads_on(world, two, -_HOUR, seconds=_LEASE + 1)
    # If the leader compared the Lease with this clock, it would find it expired at once.
    own_clock.set_off(_HOUR)
    await _leads_on(world, two, _HOUR, seconds=_FEW)
    lease = (await _lease(world))["spec"]
    assert (lease["holderIdentity"], lease.get("leaseTransitions")) == (
        led["holderIdentity"],
        led.get("leaseTransitions"),
    )
    one.process.kill()
    assert seconds_off(await _lease(world)) > _HOUR / 2, "it seems to be good for an hour"
    await until(lambda: two.process.leads, _LEASE + SECONDS)
    await world.create("second")
    await world.running("second")
    world.unharmed(first)
    await world.one_placeholder_each()


async def _leads_on(world: World, standby: Replica, off: int, *, seconds: float) -> None:
    """Check for `seconds` that the leader renews by its clock, and the other stands by."""

    async def renewed() -> float | None:
        lease = await _lease(world)
        is_off = abs(seconds_off(lease) - off) < _HOUR / 4
        return datetime.fromisoformat(lease["spec"]["renewTime"]).timestamp() if is_off else None

    since = await world.until(f"it renews {off} s off", renewed)

    async def for_long() -> bool:
        assert not await asyncio.to_thread(lambda: standby.process.leads)
        now = await renewed()
        assert now is not None, (
            f"the clock left where it was set, or another leads: {await _lease(world)}"
        )
        return now - since > seconds

    await world.until(f"it has led for {seconds} s", for_long)


async def _lease(world: World) -> Object:
    return await world.kube.get("leases", "slurm-pod-scheduler", namespace=world.namespace)
