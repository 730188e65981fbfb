"""Preemption between gangs and native jobs: a gang goes whole, and comes whole."""

from __future__ import annotations

from typing import Final

import pytest

from tests.stories.test_gangs import all_run, nodes_in_order, one_job
from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World, waits_for_slurm

# Of the partition `grace`, in seconds (tests/rigs/slurm_conf.py and the sandbox).
_GRACE_TIME: Final = 15
pytestmark = [pytest.mark.live_on("26.05"), pytest.mark.flags("--gang-linger=2s")]


@pytest.mark.slow
async def test_native_job_that_takes_one_node_of_a_gang_ends_all_its_pods_and_they_wait_together(
    world: World,
) -> None:
    before = await _gang_runs(world)
    job = await one_job(world, before)
    preemptor = await world.preempt(nodes_in_order(before)[1])
    for pod in before.values():
        _told(await _last(world, pod), words=(f"{job.job_id}", "PREEMPTED"))
        event = await world.event("Preempted", name=pod["metadata"]["name"])
        assert f"{job.job_id}" in event["message"]
    await world.job_ended(job.job_id, state="PREEMPTED")
    waiting = await _wait_again(world, before)
    record = await world.slurm.job(preemptor)
    assert record is not None
    assert record.states == ("RUNNING",)
    await world.end_native(preemptor)
    after = await all_run(world, 2)
    assert {it["metadata"]["uid"] for it in after.values()} == waiting
    assert (await one_job(world, after)).job_id != job.job_id
    lines = world.scheduler.log.read_text(encoding="utf-8").splitlines()
    assert len([it for it in lines if "gang evicted" in it]) == 1


async def test_preempted_gang_with_grace_time_gives_each_pod_what_is_left_of_it(
    world: World,
) -> None:
    before = await _gang_runs(world, partition=world.cluster.grace_partition, grace=20)
    await world.preempt(nodes_in_order(before)[0])
    for pod in before.values():
        _told(await _last(world, pod), words=("GraceTime",))
        seen = [it.pod for it in world.history.of(pod["metadata"]["name"])]
        leaving = next(it for it in seen if pods.leaving(it))
        given = int(leaving["metadata"]["deletionGracePeriodSeconds"])
        assert 0 < given < _GRACE_TIME, pods.summary(leaving)


@pytest.mark.slow
async def test_gang_preempts_native_jobs_and_starts_when_the_last_of_them_has_gone(
    world: World,
) -> None:
    """One of them goes at once, and the other after the GraceTime of its partition."""
    nodes = world.cluster.nodes[:2]
    partitions = (world.cluster.partition, world.cluster.grace_partition)
    native = [
        await world.native_job(
            f"native-{node}",
            partition=partition,
            required_nodes=[node],
            cpus_per_task=world.cluster.cpus_per_node,
        )
        for node, partition in zip(nodes, partitions, strict=True)
    ]
    for job_id in native:
        await world.job_runs(job_id)
    ranked = await _gang_runs(world, partition=world.cluster.high_partition)
    job = await one_job(world, ranked)
    assert nodes_in_order(ranked) == list(nodes)
    ended = [await world.job_ended(job_id, state="PREEMPTED") for job_id in native]
    ends = [record.number("end_time") or 0 for record in ended]
    began = job.number("start_time") or 0
    assert max(ends) <= began, f"ends {ends}, the gang's start {began}"
    assert max(ends) - min(ends) > _GRACE_TIME / 2, f"one of them had no GraceTime: {ends}"


async def _gang_runs(
    world: World, *, partition: str | None = None, grace: int = 3
) -> dict[int, Object]:
    """A batch Job of two pods on the first two nodes, by rank, once both run."""
    where = {"partition": partition or world.cluster.partition}
    where["required-nodes"] = ",".join(world.cluster.nodes[:2])
    body = pods.batch_job(2, slurm=where, grace=grace)
    await world.kube.create("jobs", body, namespace=world.namespace)
    return await all_run(world, 2)


async def _last(world: World, pod: Object) -> Object:
    """The pod as it was last seen, once it is gone."""
    return (await world.removed(pod)).pod


def _told(pod: Object, *, words: tuple[str, ...]) -> None:
    condition = pods.condition(pod, "DisruptionTarget")
    assert condition is not None, pods.summary(pod)
    assert (condition["status"], condition["reason"]) == ("True", "Preempted")
    assert not [word for word in words if word not in condition["message"]], condition


async def _wait_again(world: World, before: dict[int, Object]) -> set[str]:
    """The uids of the pods that have come in the place of these, once both wait for one job.
    None of them is bound.
    """
    former = {it["metadata"]["uid"] for it in before.values()}

    async def look() -> set[str] | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        new = [it for it in found if it["metadata"]["uid"] not in former]
        assert not any(map(pods.node_of, new)), [pods.summary(it) for it in new]
        wait = [it for it in new if waits_for_slurm(it)]
        jobs = {pods.annotation(it, pods.JOB_ID) for it in wait}
        uids = {it["metadata"]["uid"] for it in wait}
        return uids if len(uids) == 2 and len(jobs) == 1 else None

    return await world.until("both pods wait for one job", look)
