"""Hundreds of pods come and go while schedulers are killed, servers restart and the network fails.
At the end all faults stop. Nothing may be lost, doubled or killed without a reason, and nothing may
have grown.

`make soak` runs it, with SOAK_MINUTES and SOAK_SEED. In the first two thirds all disturbances
happen. In the last third only the network fails, so that one process lives long enough to show a
leak.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.audit.judge import DEFAULT, Limits
from tests.stories.soak.chaos import Chaos
from tests.stories.soak.churn import Churn
from tests.stories.soak.leaks import Samples
from tests.stories.soak.replicas import Replica, replicas
from tests.support.cluster import Cluster
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

pytestmark = [pytest.mark.live, pytest.mark.soak, pytest.mark.timeout(0)]

_CONVERGED_SECONDS: Final = 180.0
# Each leader counts anew for the brake, and within the brake's window there are at most three.
_LIMITS: Final = Limits(brake_share=3 * DEFAULT.brake_share)


@pytest.fixture
def cluster(live_26: Cluster) -> Cluster:
    """Real servers with two hundred simulated Nodes."""
    return live_26


@pytest.fixture
def pair(cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[list[Replica]]:
    """Both schedulers."""
    with replicas(cluster, folder=tmp_path, namespace=namespace) as found:
        yield found


@pytest.fixture
def scheduler(pair: list[Replica]) -> SchedulerProcess:
    """The scheduler whose log is shown when the test fails."""
    return pair[0].process


async def test_nothing_is_lost_doubled_killed_or_leaked(
    world: World, cluster: Cluster, pair: list[Replica], request: pytest.FixtureRequest
) -> None:
    seconds = 60 * request.config.getoption("--soak-minutes")
    seed = request.config.getoption("--soak-seed")
    world.audit.limits = _LIMITS
    print(f"soak of {seconds / 60:.0f} minutes, seed {seed}")
    dice = random.Random(seed)
    chaos = Chaos(cluster, pair, dice)
    churn = Churn(world, request.config.getoption("--soak-pods"), dice)
    async with _running(*(it.keep_alive() for it in pair)):
        async with _running(churn.run()):
            async with _running(chaos.run()):
                await asyncio.sleep(seconds * 2 / 3)
            samples = Samples(await _leader(world, pair))
            async with _running(chaos.run(mild=True), samples.run()):
                await asyncio.sleep(seconds / 3)
        for it in pair:
            it.proxied.play.heal()
        await _drained(world)
    _tell(chaos.did, churn.did, pair, samples)
    assert churn.did["deleted"]
    assert len(chaos.did) > 5
    assert [it.proxied.play.failures for it in pair] == [[], []]
    assert not samples.leaks()


@asynccontextmanager
async def _running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these in the background of the block. If one of them fails, the block fails."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(it) for it in works]
        yield
        for task in tasks:
            task.cancel()


async def _leader(world: World, pair: list[Replica]) -> SchedulerProcess:
    async def look() -> SchedulerProcess | None:
        return next((it.process for it in pair if it.process.running and it.process.leads), None)

    return await world.until("one leads", look, seconds=60)


async def _drained(world: World) -> None:
    """Delete all pods, and wait until they and their jobs are gone."""
    for it in await world.kube.items("pods", namespace=world.namespace):
        await world.kube.delete("pods", it["metadata"]["name"], namespace=world.namespace)
    await world.until("nothing is left", lambda: _nothing(world), seconds=_CONVERGED_SECONDS)


async def _nothing(world: World) -> bool:
    pods = await world.kube.items("pods", namespace=world.namespace)
    return not pods and not await world.slurm.live_placeholders(world.namespace)


def _tell(chaos: Counter[str], churn: Counter[str], pair: list[Replica], samples: Samples) -> None:
    starts = {f"scheduler {it.name} started": it.starts for it in pair}
    for title, table in (("Pods", churn), ("Survived", chaos), ("Processes", starts)):
        print(f"\n{title}")
        for name, count in sorted(table.items()):
            print(f"  {count:6} {name}")
    ended = len(samples.by_pid) - 1
    print(f"\nOf one that led in the last third, by {len(samples.taken)} samples; {ended} ended")
    for line in samples.table():
        print(f"  {line}")
