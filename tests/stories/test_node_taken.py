"""A pod has lost its job, and a native job of another user has taken its node: the pod goes.

The pod gets a new job instead of the lost one. That job asks for the pod's node, so Slurm never
refuses it, and it only waits behind the native job. If the pod did not end, both would compute side
by side, on resources that Slurm charges to the other user.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.stories.clusters import told_on
from tests.support import pods
from tests.support.kube import Object
from tests.support.sandbox import SandboxCluster
from tests.support.world import World

# The scheduler gives the new job 30 s to start before it checks who holds the node.
pytestmark = pytest.mark.slow

_MINUTES: Final = 60
_SCRIPT: Final = "#!/bin/sh\nexec sleep 3600\n"


# Slurm's handling of its queue does not depend on its release.
cluster = told_on("sandbox-26.05", "live-24.11")


@pytest.mark.flags("--placeholder-mode=script")
async def test_pod_whose_user_kills_its_script_leaves_its_node_to_the_job_that_was_next(
    world: World,
) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    ends = job.number("end_time")
    assert ends is not None
    native = await _native(world, job.nodes)
    await world.cluster.kill_script(job.job_id)
    await world.job_ended(job.job_id, state="FAILED")
    await world.until("the native job has the node", lambda: _runs(world, native))
    again = (await world.one_placeholder_each())[pod["metadata"]["uid"]]
    assert (again.states[0], again.raw["required_nodes"]) == ("PENDING", job.nodes)
    assert again.tag["until"] == ends, "its user has gained time"
    await _leaves(world, pod, native)


async def test_pod_that_slurm_forgot_leaves_its_node_to_the_job_that_came_first(
    world: World,
) -> None:
    if not isinstance(world.cluster, SandboxCluster):
        pytest.skip("a real slurmd ends the next job of the id whose script it still runs")
    lost = "Slurm has lost the record of the job that the pod was bound by"
    world.audit.accepted |= dict.fromkeys(("I2", "I6"), lost)
    pod = await _running(world)
    node = str(pods.node_of(pod))
    await asyncio.to_thread(world.scheduler.kill)
    await world.cluster.lose_state()
    native = await _native(world, node)
    await world.until("the native job has the node", lambda: _runs(world, native))
    await asyncio.to_thread(world.scheduler.start)
    await _leaves(world, pod, native)


async def _running(world: World) -> Object:
    slurm = {"partition": world.cluster.script_partition, "timeout": str(60 * _MINUTES)}
    await world.create(slurm=slurm)
    return await world.running()


async def _native(world: World, node: str) -> int:
    """Submit another user's job for that whole node. Returns its id."""
    return await world.native_job(
        user="alice",
        flags=[],
        script=_SCRIPT,
        partition=world.cluster.script_partition,
        required_nodes=[node],
        cpus_per_task=world.cluster.cpus_per_node,
    )


async def _runs(world: World, job_id: int) -> bool:
    record = await world.slurm.job(job_id)
    return record is not None and record.states == ("RUNNING",)


async def _leaves(world: World, pod: Object, native: int) -> None:
    """Check that the pod gets the condition, goes with its job, and the native job runs on."""
    last = await world.removed(pod)
    condition = pods.condition(last.pod, "DisruptionTarget")
    assert condition is not None, pods.summary(last.pod)
    assert condition["reason"] == "PlaceholderLost"
    assert "other jobs have taken its resources" in condition["message"]
    await world.nothing_left()
    assert await _runs(world, native)
