"""Each story is told on every cluster: two models, and two real ones."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.cluster import Cluster, release
from tests.support.history import History
from tests.support.kube import Kube
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import SlurmHand
from tests.support.world import World

# kube-controller-manager backs off while a test before this one had the API server away.
_ACCOUNT_SECONDS = 60.0


@pytest.fixture(
    params=[
        pytest.param("sandbox_26", id="sandbox-26.05"),
        pytest.param("sandbox_24", id="sandbox-24.11"),
        pytest.param("live_26", id="live-26.05", marks=pytest.mark.live),
        pytest.param("live_24", id="live-24.11", marks=pytest.mark.live),
    ]
)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """A model or a real cluster of each Slurm release; each starts once for the session."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def scheduler(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path
) -> Iterator[SchedulerProcess]:
    """The scheduler, running and ready; a mark `flags` of the test adds flags."""
    marks = request.node.iter_markers("flags")
    flags = tuple(flag for mark in marks for flag in mark.args)
    with SchedulerProcess(cluster, folder=tmp_path, flags=flags) as process:
        yield process


@pytest.fixture
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """The cluster's API server, as its administrator sees it."""
    async with Kube(cluster.kube_url, token=cluster.kube_token, ca=cluster.kube_ca) as client:
        yield client


@pytest.fixture
async def world(cluster: Cluster, kube: Kube, scheduler: SchedulerProcess) -> AsyncIterator[World]:
    """A namespace of the test's own; afterwards nothing may be left of it in Slurm."""
    namespace = f"story-{secrets.token_hex(4)}"
    await kube.create("namespaces", {"metadata": {"name": namespace}})
    await _account(kube, namespace)
    history = History(kube, namespace)
    slurm = SlurmHand(cluster.slurm_url, major=release(cluster), token=cluster.slurm_token)
    following = asyncio.create_task(history.follow(), name="history")
    world = World(cluster, kube, slurm, scheduler, namespace, history)
    try:
        yield world
        await world.clean()
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


async def _account(kube: Kube, namespace: str) -> None:
    """Wait for what the namespace gets from a controller, and every pod needs."""
    async with asyncio.timeout(_ACCOUNT_SECONDS):
        while True:
            if await kube.find("serviceaccounts", "default", namespace=namespace) is not None:
                return
            await asyncio.sleep(0.05)
