"""A scheduler that does not know Slurm's nodes yet does not report that it is ready."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import ProxiedCluster
from tests.faults.faults import status
from tests.stories.clusters import told_on
from tests.support.cluster import Cluster
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

# A proxy holds the list of nodes back, so one cluster is enough.
cluster = told_on("sandbox-26.05")


@pytest.fixture
def scheduler(
    cluster: Cluster, proxied: ProxiedCluster, tmp_path: Path
) -> Iterator[SchedulerProcess]:
    """The scheduler, which reaches the servers only through the proxies."""
    with SchedulerProcess(proxied, folder=tmp_path) as process:
        yield process


async def test_scheduler_is_ready_once_slurm_has_listed_its_nodes(
    world: World, proxied: ProxiedCluster
) -> None:
    await asyncio.to_thread(world.scheduler.stop)
    former = _ready_lines(world)
    proxied.play.add(status(500), call="nodes", times=None)
    world.scheduler.launch()

    async def only_the_nodes_are_missing() -> bool:
        said = await asyncio.to_thread(lambda: world.scheduler.role)
        return (
            re.fullmatch(r"Slurm has not listed its nodes yet: .*HTTP 500.*\n?", said) is not None
        )

    await world.until("only the list of nodes is missing", only_the_nodes_are_missing)
    assert _ready_lines(world) == former
    proxied.play.heal()

    async def lines() -> list[str]:
        return _ready_lines(world)[len(former) :]

    (said,) = await world.until("it is ready", lines)
    assert re.search(r'"nodes_mapped": "([1-9]\d*) of \1"', said)


def _ready_lines(world: World) -> list[str]:
    lines = world.scheduler.log.read_text(encoding="utf-8").splitlines()
    return [it for it in lines if '"event": "ready"' in it]
