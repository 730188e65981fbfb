"""Story 6: pods of another scheduler and jobs of other users are never touched."""

from __future__ import annotations

import msgspec
import pytest

from tests.support import pods
from tests.support.world import World


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_pod_of_another_scheduler_is_left_alone(world: World) -> None:
    before = await world.create("foreign", scheduler="somebody-else")
    await world.create()
    await world.running()
    after = await world.kube.get("pods", "foreign", namespace=world.namespace)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert not [
        it for it in await world.slurm.placeholders(world.namespace) if "foreign" in it.name
    ]


async def test_jobs_of_others_live_on(world: World) -> None:
    where = {"partition": world.cluster.partition}
    plain = await world.native_job("plain", user="alice", **where)
    await world.create()
    pod = await world.running()
    job = await world.placeholder(pod)
    tag = job.tag | {"cluster": "another-cluster"}
    # The first job has our name, and our tag except for the cluster. The other tag is unreadable.
    lookalike = await world.native_job(
        job.name, admin_comment=msgspec.json.encode(tag).decode(), **where
    )
    garbled = await world.native_job(job.name, admin_comment="{not json", **where)

    await world.delete()
    await world.gone()
    await world.job_ended(job.job_id)
    await world.create("second")
    await world.running("second")
    for native in (plain, lookalike, garbled):
        record = await world.slurm.job(native)
        assert record is not None
        assert record.live, record


@pytest.mark.anywhere
async def test_scheduler_that_starts_leaves_jobs_of_others_alone(world: World) -> None:
    plain = await world.native_job("plain", partition=world.cluster.partition)
    world.scheduler.kill()
    world.scheduler.start()
    await world.create()
    await world.running()
    record = await world.slurm.job(plain)
    assert record is not None
    assert record.live


@pytest.mark.live_on("26.05")
async def test_pod_bound_by_another_hand_is_not_moved_or_ended(world: World) -> None:
    node = world.cluster.nodes[0]
    created = await world.create("placed", nodeName=node)
    await world.running("placed")
    await world.create()
    await world.running()
    after = await world.kube.get("pods", "placed", namespace=world.namespace)
    assert after["metadata"]["uid"] == created["metadata"]["uid"]
    assert pods.node_of(after) == node
    assert not pods.leaving(after)
