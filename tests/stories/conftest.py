"""Fixtures of the stories. By default a story runs on every cluster: two models, two real ones."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.audit.audit import Audit
from tests.faults.cluster import ProxiedCluster
from tests.stories.clusters import LIVE, told_on
from tests.support.cluster import Cluster, release
from tests.support.history import History
from tests.support.kube import Kube, namespace_for
from tests.support.own_clock import OwnClock
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import OPERATOR, SlurmHand
from tests.support.world import World

# A model and a real cluster of each Slurm release.
cluster = told_on("sandbox-26.05", "sandbox-24.11", *LIVE)


@pytest.fixture
def scheduler_flags(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The flags that the test's marks `flags` name. Where flags depend on more, a module has a
    fixture of its own with this name.
    """
    return tuple(flag for mark in request.node.iter_markers("flags") for flag in mark.args)


@pytest.fixture
def scheduler(
    cluster: Cluster, tmp_path: Path, scheduler_flags: tuple[str, ...]
) -> Iterator[SchedulerProcess]:
    """The scheduler, running and ready."""
    with SchedulerProcess(cluster, folder=tmp_path, flags=scheduler_flags) as process:
        yield process


@pytest.fixture
def proxied(cluster: Cluster, tmp_path: Path) -> Iterator[ProxiedCluster]:
    """The cluster behind fault proxies, one before each of the two servers."""
    with ProxiedCluster(cluster, folder=tmp_path) as proxied:
        yield proxied


@pytest.fixture
def own_clock(live_clock: Path, tmp_path: Path) -> OwnClock:
    """A clock that a story sets; schedulers launched with `own_clock.launch` use it."""
    return OwnClock(live_clock, tmp_path)


@pytest.fixture
async def kube(cluster: Cluster) -> AsyncIterator[Kube]:
    """The cluster's API server, as its administrator sees it."""
    async with Kube(cluster.kube_url, token=cluster.kube_token, ca=cluster.kube_ca) as client:
        yield client


@pytest.fixture
async def namespace(kube: Kube) -> str:
    """A namespace of the test's own."""
    name = f"story-{secrets.token_hex(4)}"
    await kube.create_namespace(name)
    return name


@pytest.fixture
async def elsewhere(kube: Kube) -> AsyncIterator[str]:
    """A second namespace, deleted after the test."""
    async with namespace_for(kube, "story") as name:
        yield name


@pytest.fixture
async def audit(cluster: Cluster, kube: Kube, scheduler: SchedulerProcess) -> AsyncIterator[Audit]:
    """The auditor. After the story it judges what both servers have recorded."""
    # A scheduler that may not read kube-system uses the uid of its own namespace as the cluster id.
    namespaces = await kube.items("namespaces")
    audit = Audit(
        cluster.recorder(),
        clusters={it["metadata"]["uid"] for it in namespaces} | scheduler.given("cluster-id"),
        schedulers=scheduler.given("scheduler-name"),
    )
    await audit.open()
    try:
        yield audit
    finally:
        await audit.close()


@pytest.fixture
async def world(
    cluster: Cluster, kube: Kube, scheduler: SchedulerProcess, namespace: str, audit: Audit
) -> AsyncIterator[World]:
    """The test's own namespace, with all that acts on it. At the end nothing may be left of it in
    Slurm, and the auditor must find no violation.
    """
    history = History(kube, namespace)
    outside = cluster.recorder() is None
    slurm = SlurmHand(
        cluster.slurm_url,
        major=release(cluster),
        token=cluster.slurm_token,
        operator="root" if outside else OPERATOR,
    )
    async with history.following():
        world = World(cluster, kube, slurm, scheduler, namespace, history, audit)
        yield world
        await world.clean()
        await audit.close_and_judge()
