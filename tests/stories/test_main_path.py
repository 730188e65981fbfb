"""Story 1: a pod becomes a job, is bound where the job runs, and says so at each stage."""

from __future__ import annotations

import pytest

from tests.support import pods
from tests.support.scheduler import SCHEDULER_NAME
from tests.support.world import World


async def test_pod_becomes_a_job_with_its_name_tag_and_resources(world: World) -> None:
    gpus = min(2, world.cluster.gpus_per_node)
    wanted = {"partition": world.cluster.partition, "account": "physics", "comment": "hello"}
    created = await world.create("train", cpus="3500m", memory="2Gi", gpus=gpus, slurm=wanted)
    uid = created["metadata"]["uid"]

    job = await world.placeholder(await world.bound())

    assert job.name == f"{world.namespace}.train.{uid[:8]}"
    assert job.tag["scheduler"] == SCHEDULER_NAME
    assert job.tag["namespace"] == world.namespace
    assert job.tag["unit"] == "train"
    assert job.tag["uids"] == [uid]
    assert job.tag["cluster"]
    assert job.number("cpus") == 4
    assert job.number("node_count") == 1
    assert job.number("memory_per_node") == 2048
    assert job.raw["tres_per_node"] == f"gres/gpu:{gpus}"
    assert job.raw["partition"] == world.cluster.partition
    assert job.raw["account"] == "physics"
    assert job.raw["comment"] == "hello"


@pytest.mark.anywhere
async def test_pod_is_bound_to_the_node_of_the_allocation(world: World) -> None:
    await world.create()
    pod = await world.running()
    job = await world.placeholder(pod)
    assert job.states == ("RUNNING",)
    assert pods.node_of(pod) == job.nodes
    assert job.nodes in world.cluster.nodes
    assert pods.annotation(pod, pods.NODES) == job.nodes


@pytest.mark.anywhere
async def test_placeholder_is_of_the_kind_the_release_offers(world: World) -> None:
    await world.create()
    job = await world.placeholder(await world.bound())
    external = "EXTERNAL_JOB" in job.raw["flags"]
    assert external == (world.cluster.placeholder_mode == "external")


@pytest.mark.anywhere
async def test_owner_reads_each_stage_from_the_pod(world: World) -> None:
    filler = await world.fill()
    await world.create()

    waiting = await world.waiting()
    job_id = pods.annotation(waiting, pods.JOB_ID)
    condition = pods.condition(waiting, "PodScheduled")
    assert condition is not None
    assert f"Slurm job {job_id} is pending" in condition["message"]
    assert condition["reason"] == "SlurmPending"
    await world.event("PlaceholderSubmitted")
    await world.event("SlurmPending")

    await world.end_native(filler)
    running = await world.running()
    scheduled = pods.condition(running, "PodScheduled")
    assert scheduled is not None
    assert scheduled["status"] == "True"
    assert pods.annotation(running, pods.JOB_ID) == job_id
    event = await world.event("Scheduled")
    assert pods.node_of(running) in event["message"]
    assert job_id is not None
    assert job_id in event["message"]


@pytest.mark.anywhere
async def test_waiting_pod_mirrors_the_reason_and_partition_of_slurm(world: World) -> None:
    await world.fill()
    await world.create(slurm={"partition": world.cluster.partition})
    pod = await world.waiting()

    async def mirrored() -> bool:
        now = await world.kube.get("pods", "train", namespace=world.namespace)
        condition = pods.condition(now, "PodScheduled")
        job = await world.placeholder(pod)
        assert condition is not None
        return (
            job.reason in condition["message"] and world.cluster.partition in condition["message"]
        )

    await world.until("the condition mirrors Slurm's reason", mirrored)
