"""A pod with GPUs beside native jobs with GPUs: Slurm and the kubelet choose devices independently.
So on nodes for native jobs, only jobs of the pod's own user may share the node.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.stories.clusters import told_on
from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

# The Slurm user of the scheduler's token in these stories, to whom the pods' jobs belong.
_OWN: Final = "root"
_OTHER: Final = "alice"


# The real 26.05 cluster has nodes with and without a slurmd.
cluster = told_on("sandbox-26.05", "live-26.05")


async def test_no_job_of_another_user_starts_beside_a_pod_with_gpus(world: World) -> None:
    batch = {"flags": [], "script": "#!/bin/sh\nexec sleep 3600\n"}
    partition = world.cluster.script_partition
    pod = await _running(world, partition)
    own = await _beside(world, pod, partition, user=_OWN, **batch)
    await world.until("a job of the pod's user runs", lambda: _is(world, own, "RUNNING"))
    other = await _beside(world, pod, partition, user=_OTHER, **batch)
    await world.until("the other's job waits", lambda: _is(world, other, "PENDING", "Resources"))
    await world.end_native(own)
    await world.delete()
    await world.until("the other's job runs", lambda: _is(world, other, "RUNNING"))
    left = await world.kube.find("pods", "train", namespace=world.namespace)
    assert left is None or pods.has_ended(left), "both were on one node"


async def test_jobs_of_other_users_start_beside_one_where_only_pods_run(world: World) -> None:
    if world.cluster.partition == world.cluster.script_partition:
        pytest.skip("all nodes have a slurmd")
    pod = await _running(world, world.cluster.partition)
    other = await _beside(world, pod, world.cluster.partition, user=_OTHER)
    await world.until("the other's job runs", lambda: _is(world, other, "RUNNING"))
    world.unharmed(pod)


async def _running(world: World, partition: str) -> Object:
    await world.create(gpus=1, slurm={"partition": partition})
    return await world.running()


async def _beside(world: World, pod: Object, partition: str, **fields: Any) -> int:
    """Submit a native job with one GPU on the pod's node. Returns its id."""
    node, gpu = pods.node_of(pod), "gres/gpu:1"
    return await world.native_job(
        partition=partition, required_nodes=[node], tres_per_node=gpu, **fields
    )


async def _is(world: World, job_id: int, state: str, reason: str = "None") -> bool:
    record = await world.slurm.job(job_id)
    assert record is not None
    return (record.states, record.reason) == ((state,), reason)
