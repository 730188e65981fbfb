"""How gangs end: all pods with the job, or only those of a lost node, and what becomes of these."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.stories.clusters import LIVE, told_on
from tests.stories.test_gangs import all_run, nodes_in_order, one_job
from tests.support import pods
from tests.support.kube import Object
from tests.support.slurm import Record
from tests.support.world import World

_NO_KILL: Final = {"no-kill": "true"}
_RELEASE: Final = pytest.mark.flags("--gang-lost-slot=release")
pytestmark = [pytest.mark.live_on("26.05")]

cluster = told_on("sandbox-26.05", *LIVE)


async def _running(world: World, **more: Any) -> tuple[dict[int, Object], Record]:
    await world.kube.create("jobs", pods.batch_job(3, **more), namespace=world.namespace)
    ranked = await all_run(world, 3)
    return ranked, await one_job(world, ranked)


async def _loses(world: World, ranked: dict[int, Object], rank: int) -> str:
    """Slurm loses the node of this pod."""
    node = nodes_in_order(ranked)[rank]
    assert node is not None
    await world.set_node(node, "DOWN")
    return node


async def test_node_that_fails_ends_all_pods_of_its_gang_with_one_line_in_the_log(
    world: World,
) -> None:
    before, job = await _running(world)
    await _loses(world, before, 1)
    for pod in before.values():
        name = pod["metadata"]["name"]
        assert "lost its node" in (await world.event("NodeFailed", name=name))["message"]
        await world.gone(name)
    lines = world.scheduler.log.read_text(encoding="utf-8").splitlines()
    assert len([it for it in lines if "gang evicted" in it]) == 1
    after = await all_run(world, 3)
    assert (await one_job(world, after)).job_id != job.job_id


async def test_gang_goes_on_without_the_node_that_fails_and_its_pod_says_that_its_slot_is_lost(
    world: World,
) -> None:
    if world.cluster.name.startswith("live"):
        world.audit.accepted["I6"] = (
            "a poll of a real Slurm may not show which nodes the job had before it lost one"
        )
    before, job = await _running(world, slurm=_NO_KILL)
    lost = await _loses(world, before, 1)
    name = before[1]["metadata"]["name"]
    event = await world.event("NodeFailed", name=name)
    assert f"without node {lost}" in event["message"]
    await world.gone(name)
    again = await _comes_again(world, before)
    await world.message_with(
        "has no node for rank 1", "--gang-lost-slot=release", name=again["metadata"]["name"]
    )
    world.unharmed(before[0], before[2])
    record = await world.slurm.job(job.job_id)
    assert record is not None
    assert record.number("node_count") == 2


@_RELEASE
async def test_gang_that_has_lost_a_node_is_released_and_starts_anew(world: World) -> None:
    world.audit.accepted["I6"] = "the site wants the whole gang to end when one slot is lost"
    before, job = await _running(world, slurm=_NO_KILL)
    await _loses(world, before, 1)
    for rank in (0, 2):
        await world.event("GangReleased", name=before[rank]["metadata"]["name"])
    for pod in before.values():
        await world.gone(pod["metadata"]["name"])
    after = await all_run(world, 3)
    assert (await one_job(world, after)).job_id != job.job_id


async def _comes_again(world: World, before: dict[int, Object]) -> Object:
    """The pod that the Job makes in the place of one of these."""
    known = {it["metadata"]["uid"] for it in before.values()}

    async def look() -> Object | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        new = [it for it in found if it["metadata"]["uid"] not in known and not pods.leaving(it)]
        return new[0] if new else None

    return await world.until("a pod comes again", look)


async def test_node_is_free_again_when_its_pod_has_succeeded_and_the_others_run_on(
    world: World,
) -> None:
    """An index that fails later comes back to its own node."""
    if world.cluster.name.startswith("live"):
        world.audit.accepted["I2"] = (
            "a poll of a real Slurm may come when the tag names the pod that came again, and no "
            "longer the one before it"
        )
    filler = await world.fill()
    await world.kube.create("jobs", pods.batch_job(3), namespace=world.namespace)
    first = await _of_index(world, 0)
    short = {"metadata": {"annotations": {"sandbox/run-seconds": "2"}}}
    await world.kube.patch("pods", first["metadata"]["name"], short, namespace=world.namespace)
    await world.end_native(filler)
    second, third = await _runs_at(world, 1), await _runs_at(world, 2)
    job = await world.placeholder(second)

    async def smaller() -> bool:
        record = await world.slurm.job(job.job_id)
        return record is not None and record.number("node_count") == 2

    await world.until("the job has given a node back", smaller)
    await world.delete(third["metadata"]["name"])
    again = await _comes_again(world, {0: first, 1: second, 2: third})
    again = await world.running(again["metadata"]["name"])
    assert pods.annotation(again, pods.NODES) == pods.annotation(third, pods.NODES)
    assert pods.annotation(again, pods.JOB_ID) == str(job.job_id)
    world.unharmed(second)


async def test_component_of_a_job_with_a_remainder_gives_its_node_back(world: World) -> None:
    """The first component has two nodes of two pods each, the second one a node for the fifth."""
    filler = await world.fill()
    job = pods.batch_job(5, slurm={"pods-per-node": "2"})
    await world.kube.create("jobs", job, namespace=world.namespace)
    short = {"metadata": {"annotations": {"sandbox/run-seconds": "2"}}}
    done = [await _of_index(world, index) for index in (0, 1)]
    for pod in done:
        await world.kube.patch("pods", pod["metadata"]["name"], short, namespace=world.namespace)
    await world.end_native(filler)
    rest = [await _runs_at(world, index) for index in (2, 3, 4)]
    job_id = (await world.placeholder(rest[0])).job_id

    async def smaller() -> bool:
        record = await world.slurm.job(job_id)
        return record is not None and record.number("node_count") == 1

    await world.until("the first component has given a node back", smaller)
    await world.delete(rest[1]["metadata"]["name"])
    again = await _comes_again(world, dict(enumerate([*done, *rest])))
    again = await world.running(again["metadata"]["name"])
    assert pods.annotation(again, pods.NODES) == pods.annotation(rest[0], pods.NODES)
    world.unharmed(rest[0], rest[2])


async def _of_index(world: World, index: int) -> Object:
    """The pod with this completion index, once it exists."""

    async def look() -> Object | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        wanted = ("batch.kubernetes.io/job-completion-index", str(index))
        mine = (it for it in found if wanted in it["metadata"]["annotations"].items())
        return next(mine, None)

    return await world.until(f"the pod with index {index} exists", look)


async def _runs_at(world: World, index: int) -> Object:
    return await world.running((await _of_index(world, index))["metadata"]["name"])
