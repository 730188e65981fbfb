"""The address of slurmrestd leads to another Slurm for a while, whose answers are not believed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import pytest

from tests.support.cable import Cable
from tests.support.cluster import Cluster, release
from tests.support.slurm import SlurmHand
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")

_NAMES: Final = tuple(f"many-{number}" for number in range(12))


@dataclass(frozen=True)
class Two:
    """The scheduler's own Slurm, and another one in which foreign jobs have the same ids."""

    cable: Cable
    own: Cluster
    other: Cluster
    hand: SlurmHand
    foreign: int

    def turn_away(self) -> None:
        """Turn the address to the other Slurm, with a token that is valid there."""
        ours = self.own.slurm_token_file.read_bytes().strip()
        theirs = self.other.slurm_token_file.read_bytes().strip()
        self.cable.turn_to(_port(self.other), replacing=(ours, theirs))

    def turn_back(self) -> None:
        """Turn the address back to the scheduler's own Slurm."""
        self.cable.turn_to(_port(self.own))


@pytest.fixture
def cluster(two_clusters: tuple[Cluster, Cluster]) -> Cluster:
    return two_clusters[0]


@pytest.fixture(
    params=[
        pytest.param(("sandbox_26", "sandbox_24"), id="sandbox-26.05"),
        pytest.param(("live_26", "live_24"), id="live-26.05", marks=pytest.mark.live),
        pytest.param(("live_24", "live_26"), id="live-24.11", marks=pytest.mark.live),
    ]
)
def two_clusters(request: pytest.FixtureRequest) -> tuple[Cluster, Cluster]:
    own, other = (request.getfixturevalue(name) for name in request.param)
    return own, other


@pytest.fixture
async def two(world: World, two_clusters: tuple[Cluster, Cluster]) -> AsyncIterator[Two]:
    _, other = two_clusters
    hand = SlurmHand(other.slurm_url, major=release(other), token=other.slurm_token)
    with Cable(_port(world.cluster)) as cable:
        await asyncio.to_thread(world.scheduler.stop)
        world.scheduler.add_flags(f"--slurm-api-base=http://127.0.0.1:{cable.port}")
        await asyncio.to_thread(world.scheduler.start)
        foreign = await hand.submit("foreign", partition=other.partition)
        two = Two(cable, world.cluster, other, hand, foreign)
        yield two
        await hand.cancel(foreign)
        two.turn_back()
        await asyncio.to_thread(world.scheduler.stop)
        world.scheduler.add_flags(f"--slurm-api-base={world.cluster.slurm_url}")
        await asyncio.to_thread(world.scheduler.start)


async def test_another_slurm_behind_the_address_harms_nothing_on_either_side(
    world: World, two: Two
) -> None:
    found = await world.small_ones(*_NAMES)
    before = await world.one_placeholder_each()
    two.turn_away()
    await world.until("the scheduler is not ready", lambda: _ready(world, 0))
    # A deletion and a new pod wait for the right Slurm meanwhile.
    await world.delete(_NAMES[0])
    await world.create("later", cpus="1", memory="100Mi")
    await world.message_with("the answer comes from the Slurm cluster", name="later")
    await world.gone(_NAMES[0])
    assert not await two.hand.placeholders(world.namespace), "a job was made in another Slurm"
    record = await two.hand.job(two.foreign)
    assert record is not None
    assert record.live, "a job of another Slurm was ended"
    two.turn_back()
    await world.until("the scheduler is ready", lambda: _ready(world, 1))
    await world.running("later")
    after = await world.one_placeholder_each()
    world.unharmed(*found[1:])
    kept = {pod["metadata"]["uid"] for pod in found[1:]}
    assert {uid: after[uid].job_id for uid in kept} == {uid: before[uid].job_id for uid in kept}
    assert not await two.hand.placeholders(world.namespace)


async def _ready(world: World, value: int) -> bool:
    shown = await asyncio.to_thread(world.scheduler.metrics)
    return shown.get("slurm_pod_scheduler_ready") == value


def _port(cluster: Cluster) -> int:
    """The port of the cluster's slurmrestd."""
    return urlsplit(cluster.slurm_url).port or 0
