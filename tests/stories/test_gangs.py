"""Gangs: pods of one batch Job, or with the same annotation, get one job and start together."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support import pods
from tests.support.kube import Object
from tests.support.slurm import Record
from tests.support.world import World

_OWN: Final = "slurm-pod-scheduler/"
# The pods of a gang leave together; without a linger, their job does too.
_QUICK: Final = pytest.mark.flags("--gang-linger=2s")
pytestmark = [_QUICK]


async def all_run(world: World, size: int, *, app: str = "train") -> dict[int, Object]:
    """The gang's pods by rank, once so many run and none is leaving."""

    async def look() -> dict[int, Object] | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        mine = [it for it in found if it["metadata"]["labels"]["app"] == app]
        run = [it for it in mine if pods.phase(it) == "Running" and not pods.leaving(it)]
        ranks = {int(pods.annotation(it, f"{_OWN}gang-rank") or -1): it for it in run}
        return ranks if len(ranks) == size == len(run) else None

    return await world.until(f"{size} pods of {app} run", look)


async def one_job(world: World, ranked: dict[int, Object]) -> Record:
    """The one job of all these pods."""
    ids = {pods.annotation(it, pods.JOB_ID) for it in ranked.values()}
    assert len(ids) == 1, ids
    return await world.placeholder(ranked[0])


def nodes_in_order(ranked: dict[int, Object]) -> list[str | None]:
    return [pods.annotation(ranked[rank], pods.NODES) for rank in sorted(ranked)]


async def test_batch_job_becomes_one_job_whose_nodes_have_its_pods_in_order(world: World) -> None:
    await world.kube.create("jobs", pods.batch_job(2), namespace=world.namespace)
    ranked = await all_run(world, 2)
    job = await one_job(world, ranked)
    assert job.number("node_count") == 2
    assert job.tag["group"] == "job/train"
    assert job.tag["ranks"] == [0, 1]
    first, second = nodes_in_order(ranked)
    assert first is not None
    assert second is not None
    assert world.cluster.nodes.index(first) < world.cluster.nodes.index(second)
    for rank, pod in ranked.items():
        assert pods.annotation(pod, f"{_OWN}gang-size") == "2"
        assert pods.annotation(pod, f"{_OWN}gang-rank") == str(rank)
        assert pods.annotation(pod, f"{_OWN}gang-first-node") == pods.node_of(ranked[0])
    assert [it.job_id for it in await world.slurm.live_placeholders(world.namespace)] == [
        job.job_id
    ]


async def test_deleted_batch_job_leaves_no_job(world: World) -> None:
    await world.kube.create("jobs", pods.batch_job(2), namespace=world.namespace)
    job = await one_job(world, await all_run(world, 2))
    await world.kube.delete("jobs", "train", namespace=world.namespace)
    await world.job_ended(job.job_id, state="CANCELLED")
    await world.nothing_left()


async def test_cancelled_job_ends_all_pods_and_they_come_again_in_a_new_one(world: World) -> None:
    await world.kube.create("jobs", pods.batch_job(2), namespace=world.namespace)
    before = await all_run(world, 2)
    job = await one_job(world, before)
    await world.slurm.cancel(job.job_id)

    async def anew() -> dict[int, Object] | None:
        now = await all_run(world, 2)
        uids = {it["metadata"]["uid"] for it in before.values()}
        return None if uids & {it["metadata"]["uid"] for it in now.values()} else now

    after = await world.until("two new pods run", anew)
    assert (await one_job(world, after)).job_id != job.job_id


async def test_pod_that_fails_comes_back_to_its_node_in_the_same_job(world: World) -> None:
    await world.kube.create("jobs", pods.batch_job(2), namespace=world.namespace)
    before = await all_run(world, 2)
    job = await one_job(world, before)
    await world.delete(before[1]["metadata"]["name"])

    async def back() -> dict[int, Object] | None:
        now = await all_run(world, 2)
        return now if now[1]["metadata"]["uid"] != before[1]["metadata"]["uid"] else None

    after = await world.until("the second pod has come again", back)
    assert (await one_job(world, after)).job_id == job.job_id
    assert nodes_in_order(after) == nodes_in_order(before)
    assert after[0]["metadata"]["uid"] == before[0]["metadata"]["uid"]


@pytest.mark.live_on("neither")
async def test_pod_killed_twenty_times_comes_back_to_its_slot_each_time(world: World) -> None:
    await world.kube.create("jobs", pods.batch_job(2), namespace=world.namespace)
    first = ranked = await all_run(world, 2)
    job = await one_job(world, first)

    async def back() -> dict[int, Object] | None:
        now = await all_run(world, 2)
        return now if now[1]["metadata"]["uid"] != ranked[1]["metadata"]["uid"] else None

    for _ in range(20):
        await world.delete(ranked[1]["metadata"]["name"])
        ranked = await world.until("the second pod has come again", back)
        assert (await one_job(world, ranked)).job_id == job.job_id
        assert nodes_in_order(ranked) == nodes_in_order(first)
    assert ranked[0]["metadata"]["uid"] == first[0]["metadata"]["uid"]


async def test_gang_that_is_not_whole_says_who_is_missing(world: World) -> None:
    said = {"gang": "duo", "gang-size": "2"}
    await world.create("duo-0", slurm=said)
    await world.message_with("Gang duo (1 of 2 pods exist)", "waiting for duo-1", name="duo-0")
    assert await world.slurm.live_placeholders(world.namespace) == []
    await world.create("duo-1", slurm=said)
    first, second = await world.running("duo-0"), await world.running("duo-1")
    assert pods.annotation(first, pods.JOB_ID) == pods.annotation(second, pods.JOB_ID)
    assert pods.node_of(first) != pods.node_of(second)


async def test_pod_that_opts_out_gets_a_job_of_its_own(world: World) -> None:
    job = pods.batch_job(2, slurm={"gang": "none"})
    await world.kube.create("jobs", job, namespace=world.namespace)
    records = await world.one_placeholder_each(of=2)
    assert [it.number("node_count") for it in records.values()] == [1, 1]


@pytest.mark.flags("--gang-linger=30s")
async def test_pod_that_cannot_be_served_gets_no_slot_of_a_gang_that_runs(world: World) -> None:
    """It asks for more than its slot has, and hid that behind an annotation that is wrong."""
    said = {"gang": "duo", "gang-size": "2"}
    await world.create("duo-0", slurm=said)
    await world.create("duo-1", slurm=said)
    first, second = await world.running("duo-0"), await world.running("duo-1")
    job = await world.placeholder(first)
    await world.delete("duo-1")
    await world.gone("duo-1")
    await world.create("duo-1", slurm={**said, "nice": "very"}, cpus="3")
    await world.message_with("is 'very'", name="duo-1")
    await world.edit("duo-1", nice="1")
    await world.message_with("asks for 3 CPUs", "its slot has other resources", name="duo-1")
    assert pods.node_of(await world.kube.get("pods", "duo-1", namespace=world.namespace)) is None
    assert (await world.placeholder(first)).job_id == job.job_id
    await world.delete("duo-1")
    await world.gone("duo-1")
    await world.create("duo-1", slurm=said)
    again = await world.running("duo-1")
    assert pods.node_of(again) == pods.node_of(second)


@pytest.mark.flags("--gang-linger=2s", "--gangs=annotations")
async def test_pods_of_two_sizes_start_together_each_on_a_slot_of_its_size(world: World) -> None:
    said = {"gang": "duo", "gang-size": "2"}
    await world.create("duo-0", slurm=said, cpus="1")
    await world.create("duo-1", slurm=said, cpus="2")
    first, second = await world.running("duo-0"), await world.running("duo-1")
    assert pods.annotation(first, pods.JOB_ID) == pods.annotation(second, pods.JOB_ID)
    assert pods.node_of(first) != pods.node_of(second)
    assert pods.annotation(second, f"{_OWN}gang-first-node") == pods.node_of(first)
    job = await world.placeholder(first)
    assert job.tag["ranks"] == [0, 1]
    assert [it["slots"] for it in job.tag["parts"]] == [1, 1]
    await world.delete("duo-1")
    await world.gone("duo-1")
    await world.create("duo-1", slurm=said, cpus="2")
    again = await world.running("duo-1")
    assert pods.annotation(again, pods.JOB_ID) == str(job.job_id)
    assert pods.node_of(again) == pods.node_of(second)
    for name in ("duo-0", "duo-1"):
        await world.delete(name)
    await world.job_ended(job.job_id, state="CANCELLED")
    await world.nothing_left()


async def test_remainder_of_the_pods_goes_on_a_node_of_its_own(world: World) -> None:
    said = {"pods-per-node": "2", "partition": world.cluster.partition}
    await world.kube.create(
        "jobs", pods.batch_job(3, slurm=said, cpus="1", memory="100Mi"), namespace=world.namespace
    )
    ranked = await all_run(world, 3)
    job = await one_job(world, ranked)
    assert [(it["slots"], it.get("per_node", 1)) for it in job.tag["parts"]] == [(2, 2), (1, 1)]
    first, second, third = nodes_in_order(ranked)
    assert (first, first != third) == (second, True)
    await world.kube.delete("jobs", "train", namespace=world.namespace)
    await world.job_ended(job.job_id, state="CANCELLED")
    await world.nothing_left()


async def test_next_scheduler_takes_the_gang_as_it_is(world: World) -> None:
    await world.kube.create("jobs", pods.batch_job(2), namespace=world.namespace)
    before = await all_run(world, 2)
    job = await one_job(world, before)
    world.scheduler.kill()
    world.scheduler.start()
    await world.delete(before[0]["metadata"]["name"])

    async def back() -> dict[int, Object] | None:
        now = await all_run(world, 2)
        return now if now[0]["metadata"]["uid"] != before[0]["metadata"]["uid"] else None

    after = await world.until("the first pod has come again", back)
    assert (await one_job(world, after)).job_id == job.job_id
    assert after[1]["metadata"]["uid"] == before[1]["metadata"]["uid"]
