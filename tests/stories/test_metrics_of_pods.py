"""What /metrics of a running scheduler tells of its pods, of Slurm's nodes and of open pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiohttp
import pytest

from tests.support.ports import free_ports
from tests.support.sandbox import SandboxCluster
from tests.support.world import World

P = "slurm_pod_scheduler_"


@pytest.fixture
def cluster() -> Iterator[SandboxCluster]:
    with SandboxCluster("26.05", nodes=2) as cluster:
        yield cluster


@pytest.fixture
def port() -> int:
    """Where the page is served."""
    return free_ports(1)[0]


@pytest.fixture
def scheduler_flags(port: int) -> tuple[str, ...]:
    return (f"--page-bind-address=127.0.0.1:{port}", "--page-access=open")


async def test_metrics_tell_where_pods_are_and_what_they_hold(world: World) -> None:
    await world.create("train", gpus=2)
    await world.running("train")
    place = {"pod_namespace": world.namespace, "partition": world.cluster.partition}

    async def held() -> float:
        read = world.scheduler.metric
        return await asyncio.to_thread(read, f"{P}gpus", {**place, "state": "held"})

    assert await world.until("the GPUs are counted", held) == 2
    text = await asyncio.to_thread(world.scheduler.metrics)
    assert world.scheduler.metric(f"{P}queue_wait_seconds_count", place) == 1
    assert text[f"{P}slurm_nodes"] == len(world.cluster.nodes)
    assert text[f"{P}pods"] == text[f"{P}units"] == 1


async def test_open_pages_are_counted(world: World, port: int) -> None:
    def opened() -> float:
        return world.scheduler.metrics()[f"{P}page_streams"]

    assert await asyncio.to_thread(opened) == 0
    url = f"http://127.0.0.1:{port}/api/stream"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 200
        assert await asyncio.to_thread(opened) == 1

    async def closed() -> bool:
        return await asyncio.to_thread(opened) == 0

    assert await world.until("the stream is closed", closed)
