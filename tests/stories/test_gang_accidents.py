"""Gangs at awkward moments: a group that goes before it runs, sizes and labels that are wrong, and
a slurmctld that is away or has lost its state.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.stories.test_gangs import all_run, nodes_in_order, one_job
from tests.support import pods
from tests.support.kube import Object
from tests.support.refusing import denying
from tests.support.world import World, waits_for_slurm

pytestmark = [pytest.mark.flags("--gang-linger=2s")]


async def _make(world: World, size: int, **more: Any) -> None:
    await world.kube.create("jobs", pods.batch_job(size, **more), namespace=world.namespace)


async def _all_say(world: World, size: int, *words: str) -> list[Object]:
    """The pods of the batch Job, once so many say all these words in PodScheduled=False."""

    async def look() -> list[Object] | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        said = [it for it in found if all(word in pods.why(it) for word in words)]
        return found if len(said) == size else None

    return await world.until(f"{size} pods say {words}", look)


async def _end_group(world: World) -> None:
    await world.kube.delete("jobs", "train", namespace=world.namespace)
    await world.nothing_left()


async def test_group_deleted_while_its_job_is_pending_leaves_nothing(world: World) -> None:
    filler = await world.fill()
    await _make(world, 2)
    found = await _all_say(world, 2, "is pending")
    assert all(map(waits_for_slurm, found))
    (job,) = await world.slurm.live_placeholders(world.namespace)
    await _end_group(world)
    await world.job_ended(job.job_id, state="CANCELLED")
    await world.end_native(filler)


@pytest.mark.live_on("26.05")
async def test_group_deleted_half_created_never_had_a_job(world: World) -> None:
    said = {"gang": "duo", "gang-size": "2"}
    await world.create("duo-0", slurm=said)
    await world.message_with("(1 of 2 pods exist)", name="duo-0")
    assert await world.slurm.live_placeholders(world.namespace) == []
    await world.delete("duo-0")
    await world.gone("duo-0")
    await world.create("duo-1", slurm=said)
    await world.message_with("(1 of 2 pods exist)", "duo-0", name="duo-1")
    await world.delete("duo-1")
    await world.nothing_left()


@pytest.mark.live_on("26.05")
async def test_group_deleted_while_its_job_runs_and_no_pod_is_bound_leaves_nothing(
    world: World,
) -> None:
    async with denying(world.kube.answer, world.namespace, "pods/binding", message="not yet"):
        await _make(world, 2)
        await _all_say(world, 2, "refuses to bind")
        (job,) = await world.slurm.live_placeholders(world.namespace)
        assert job.states == ("RUNNING",)
        await world.kube.delete("jobs", "train", namespace=world.namespace)
        await world.job_ended(job.job_id, state="CANCELLED")
    await world.nothing_left()


async def test_twelve_pods_go_four_on_each_of_three_nodes_in_order(world: World) -> None:
    said = {"pods-per-node": "4", "partition": world.cluster.partition}
    if len(world.cluster.nodes) < 3:
        pytest.skip("the real 24.11 has two nodes")
    await _make(world, 12, slurm=said, cpus="1", memory="100Mi")
    ranked = await all_run(world, 12)
    job = await one_job(world, ranked)
    assert job.number("node_count") == 3
    nodes = nodes_in_order(ranked)
    assert nodes == sorted(nodes, key=str)
    assert [nodes.count(it) for it in dict.fromkeys(nodes)] == [4, 4, 4]
    await _end_group(world)


async def test_gang_larger_than_the_partition_says_that_it_is_one_and_how_to_have_its_pods_alone(
    world: World,
) -> None:
    await _make(world, 300, slurm={"partition": world.cluster.partition}, cpus="1")
    found = await _all_say(world, 300, "300", "gang: none")
    assert not [it for it in found if pods.node_of(it)]
    await world.kube.delete("jobs", "train", namespace=world.namespace)
    await world.nothing_left()


@pytest.mark.live_on("26.05")
async def test_forged_label_of_a_group_gives_no_part_in_its_job(world: World) -> None:
    await _make(world, 2)
    ranked = await all_run(world, 2)
    job = await one_job(world, ranked)
    first = ranked[0]["metadata"]
    forged = {name: it for name, it in first["labels"].items() if name.startswith("batch.")}
    stranger = pods.pod("stranger", labels=forged, container=world.cluster.container)
    # A pod without a controller is adopted by the Job, and deleted as one too many.
    owner = {"apiVersion": "v1", "kind": "Pod", "name": first["name"], "uid": first["uid"]}
    stranger["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    await world.kube.create("pods", stranger, namespace=world.namespace)
    await world.running("stranger")
    event = await world.event("NotInGang", name="stranger")
    assert "train" in event["message"]
    alone = await world.running("stranger")
    assert pods.annotation(alone, pods.JOB_ID) != str(job.job_id)
    world.unharmed(*ranked.values())


@pytest.mark.live_on("26.05")
async def test_size_of_a_thousand_million_is_refused_in_words(world: World) -> None:
    await world.create("duo-0", slurm={"gang": "duo", "gang-size": "1000000000"})
    message = await world.message_with("1000000000", name="duo-0")
    assert message.count("gang-size") == 1
    assert await world.slurm.live_placeholders(world.namespace) == []


async def test_gang_runs_on_while_slurmctld_is_away(world: World) -> None:
    await _make(world, 2)
    ranked = await all_run(world, 2)
    job = await one_job(world, ranked)
    await world.cluster.save(job.job_id)
    await world.cluster.stop("slurmctld", kill=True)
    await world.cluster.start("slurmctld")
    await world.create("after")
    await world.running("after")
    world.unharmed(*ranked.values())
    assert (await one_job(world, await all_run(world, 2))).job_id == job.job_id
    await world.delete("after")
    await _end_group(world)


async def test_gang_gets_its_nodes_again_after_slurmctld_has_lost_its_state(world: World) -> None:
    world.audit.accepted["I2"] = "Slurm has lost the record of the job that the pods were bound by"
    await _make(world, 2)
    ranked = await all_run(world, 2)
    before = nodes_in_order(ranked)
    for node in world.cluster.nodes_for_scripts:
        world.mend_later(node)
    await world.cluster.lose_state()

    async def holds() -> bool:
        jobs = await world.slurm.live_placeholders(world.namespace)
        now = await all_run(world, 2)
        return (
            len(jobs) == 1
            and jobs[0].states == ("RUNNING",)
            and {pods.annotation(it, pods.JOB_ID) for it in now.values()} == {str(jobs[0].job_id)}
            and nodes_in_order(now) == before
        )

    await world.until("one job holds the nodes of both pods again", holds)
    world.unharmed(*ranked.values())
    await _end_group(world)
