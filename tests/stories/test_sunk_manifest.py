"""A manifest written for SUNK, applied unchanged, runs as it would with SUNK.

The manifests follow SUNK's own pages: a whole node, and GPUs shared by the pods of one user. Sizes
are smaller, to fit the smallest cluster here, and every Node gets the label of the example.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

WHOLE_NODE = """
apiVersion: v1
kind: Pod
metadata:
  name: full
  annotations:
    sunk.coreweave.com/account: root
    sunk.coreweave.com/comment: A Kubernetes job
    sunk.coreweave.com/exclusive: "none"
spec:
  schedulerName: tenant-slurm-scheduler
  terminationGracePeriodSeconds: 5
  restartPolicy: Never
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: gpu.nvidia.com/model
                operator: In
                values: [H100_NVLINK_80GB]
  containers:
    - name: main
      image: registry.invalid/train:1
      resources:
        requests:
          cpu: "40"
          memory: 100Gi
          nvidia.com/gpu: "8"
        limits:
          memory: 110Gi
          nvidia.com/gpu: "8"
"""
SHARED_GPU = """
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  annotations:
    sunk.coreweave.com/exclusive: "user"
    sunk.coreweave.com/user-id: "2001"
    sunk.coreweave.com/timeout: "3601"
spec:
  schedulerName: tenant-slurm-scheduler
  terminationGracePeriodSeconds: 20
  containers:
    - name: main
      image: registry.invalid/train:1
      resources:
        requests:
          cpu: "8"
          memory: 16Gi
        limits:
          memory: 32Gi
          nvidia.com/gpu: "1"
"""


@pytest.fixture
def scheduler_flags() -> tuple[str, ...]:
    """Those that SUNK's chart gives SUNK's own scheduler."""
    return (
        "--scheduler-name=tenant-slurm-scheduler",
        "--gpu-types=H100_NVLINK_80GB=h100",
        "--annotation-prefix=slurm.example.com/",
    )


@pytest.fixture
async def labelled(world: World) -> AsyncIterator[World]:
    """A world whose Nodes have the label of SUNK's example."""
    await _label(world, "H100_NVLINK_80GB")
    yield world
    await _label(world, None)


async def _label(world: World, model: str | None) -> None:
    patch = {"metadata": {"labels": {"gpu.nvidia.com/model": model}}}
    nodes = world.cluster.nodes
    await asyncio.gather(*(world.kube.patch("nodes", node, patch) for node in nodes))


async def apply(world: World, manifest: str, **changes: str) -> Object:
    text = manifest
    for word, value in changes.items():
        text = text.replace(word, value)
    body: dict[str, Any] = copy.deepcopy(yaml.safe_load(text))
    return await world.kube.create("pods", body, namespace=world.namespace)


async def test_whole_node_is_taken_and_its_gpus_are_of_the_type_asked_for(
    labelled: World,
) -> None:
    world = labelled
    await apply(world, WHOLE_NODE)
    job = await world.placeholder(await world.running("full"))
    assert job.raw["account"] == "root"
    assert job.raw["comment"] == "A Kubernetes job"
    assert job.raw["tres_per_node"] == "gres/gpu:h100:8"
    assert f"cpu={world.cluster.cpus_per_node}," in job.raw["tres_alloc_str"]
    assert job.number("memory_per_node") == 100 * 1024


async def test_pods_of_one_user_share_a_node_and_keep_others_away(world: World) -> None:
    await apply(world, SHARED_GPU, NAME="first")
    first = await world.placeholder(await world.running("first"))
    assert (first.raw["user_name"], first.number("group_id")) == ("alice", 2001)
    assert first.number("time_limit") == 61

    here = f'"2001"\n    sunk.coreweave.com/required-nodes: {first.nodes}'
    await apply(world, SHARED_GPU, **{"NAME": "second", '"2001"': here})
    second = await world.running("second")
    assert pods.node_of(second) == first.nodes

    await apply(world, SHARED_GPU, **{"NAME": "stranger", '"2001"': here.replace("2001", "2002")})
    waiting = await world.waiting("stranger")
    assert pods.node_of(waiting) is None


@pytest.mark.live_on("26.05")
async def test_names_of_the_sites_own_prefix_do_the_same_beside_sunks(world: World) -> None:
    own = SHARED_GPU.replace("sunk.coreweave.com/timeout", "slurm.example.com/timeout")
    await apply(world, own, NAME="own")
    job = await world.placeholder(await world.running("own"))
    assert job.raw["user_name"] == "alice"
    assert job.number("time_limit") == 61

    twice = '"3601"\n    slurm.example.com/timeout: "60"'
    await apply(world, SHARED_GPU, **{"NAME": "both", '"3601"': twice})
    event = await world.event("SchedulingFailed", name="both")
    assert "the value of sunk.coreweave.com/timeout, or only one of the two" in event["message"]
