"""Gangs whose pods Slurm packs into what is free on each node; docs/gangs-slurm.md says when."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from tests.stories.test_gangs import all_run, nodes_in_order, one_job
from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

pytestmark = [pytest.mark.flags("--gang-linger=20s")]
SAID: Final = {"pods-per-node": "1000"}


async def _comes_again(world: World, ranked: dict[int, Object], rank: int) -> Object:
    """The pod of this rank once it has been deleted, has come again and runs."""
    former = ranked[rank]["metadata"]
    await world.delete(former["name"])

    async def back() -> Object | None:
        now = (await all_run(world, len(ranked)))[rank]
        return None if now["metadata"]["uid"] == former["uid"] else now

    return await world.until(f"the pod of rank {rank} runs again", back)


async def test_pods_start_in_what_is_free_on_each_node_and_come_again_there(world: World) -> None:
    """No node has room for all five of them, and no two have room for the same number."""
    await world.fill(leave_cpus=3)
    said = SAID | {"partition": world.cluster.partition}
    train = pods.batch_job(5, slurm=said, cpus="1", memory="100Mi")
    await world.kube.create("jobs", train, namespace=world.namespace)
    ranked = await all_run(world, 5)
    job = await one_job(world, ranked)
    assert job.tag["per_node"] == 0
    nodes = nodes_in_order(ranked)
    assert nodes == sorted(nodes, key=str)
    assert sorted(Counter(nodes).values()) == [2, 3]
    world.scheduler.kill()
    world.scheduler.start()
    for rank in (0, 4):
        again = await _comes_again(world, ranked, rank)
        assert pods.annotation(again, pods.NODES) == nodes[rank]
        assert pods.annotation(again, pods.JOB_ID) == str(job.job_id)
    world.unharmed(*(ranked[rank] for rank in (1, 2, 3)))
    await world.kube.delete("jobs", "train", namespace=world.namespace)
    await world.job_ended(job.job_id, state="CANCELLED")


async def test_pods_with_gpus_are_packed_only_where_nodes_have_a_slurmd(world: World) -> None:
    half = world.cluster.gpus_per_node // 2
    said = SAID | {"partition": world.cluster.partition}
    train = pods.batch_job(3, slurm=said, cpus="1", memory="100Mi", gpus=half)
    await world.kube.create("jobs", train, namespace=world.namespace)
    ranked = await all_run(world, 3)
    job = await one_job(world, ranked)
    without_slurmd = world.cluster.name == "live-26.05"
    assert (job.tag.get("per_node") == 0) is not without_slurmd
    nodes = nodes_in_order(ranked)
    assert [nodes.count(it) for it in dict.fromkeys(nodes)] == [2, 1]
    await world.kube.delete("jobs", "train", namespace=world.namespace)
    await world.job_ended(job.job_id, state="CANCELLED")
    # Slurm has all GPUs again.
    await world.create("whole-0", gpus=2 * half, slurm={"partition": world.cluster.partition})
    await world.create("whole-1", gpus=2 * half, slurm={"partition": world.cluster.partition})
    await world.running("whole-0")
    await world.running("whole-1")
