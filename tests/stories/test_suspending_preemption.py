"""PreemptMode=SUSPEND,GANG: a job of higher priority computes on the cores of a pod (B10).

Slurm stops the processes of the placeholder, which has none or one that sleeps, but not those of
the pod. So the pod is ended, and with the handover guard the other job's processes wait for that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.handover import (
    STOPS_WHEN_LET,
    guards,
    let_stop_when_a_guard_waits,
    running_pod,
    started_after_the_pod,
)
from tests.support.hooks import hooks_on, secret_file
from tests.support.live import LiveCluster
from tests.support.world import World

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(live_24: Cluster) -> Cluster:
    """The live 24.11 cluster: both partitions have nodes on which batch jobs run."""
    return live_24


@pytest.fixture
def scheduler_flags(tmp_path: Path) -> tuple[str, ...]:
    """A hooks API."""
    return (f"--hooks-api-token-file={secret_file(tmp_path)}",)


@pytest.fixture
async def suspending(world: World) -> AsyncIterator[World]:
    """The world with PreemptMode=SUSPEND,GANG."""
    assert isinstance(world.cluster, LiveCluster)
    async with world.cluster.suspending():
        yield world


async def test_preemptor_starts_when_the_pod_whose_job_it_suspends_has_stopped(
    suspending: World,
) -> None:
    world = suspending
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await running_pod(world, stop_seconds=STOPS_WHEN_LET)
        job = await world.placeholder(pod)
        preemptor = await world.native_job(
            user="alice",
            flags=[],
            script="#!/bin/sh\nexit 0\n",
            partition=world.cluster.high_partition,
            required_nodes=[pods.node_of(pod)],
            cpus_per_task=world.cluster.cpus_per_node,
        )
        await let_stop_when_a_guard_waits(world)
        await started_after_the_pod(world, preemptor)
    last = await world.removed(pod)
    condition = pods.condition(last.pod, "DisruptionTarget")
    assert condition is not None, pods.summary(last.pod)
    assert (condition["reason"], str(job.job_id) in condition["message"]) == ("Suspended", True)
    assert guards(world, "freed") == 1
    await world.job_ended(job.job_id, state="CANCELLED")
