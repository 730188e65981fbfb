"""Gangs whose size is changed while they wait: by their object, or by those who create the pods."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from msgspec.structs import replace

from scheduler.core.gang_objects import (
    GroupMeta,
    JobStatus,
    PluginsPodGroup,
    PluginsPodGroupSpec,
)
from scheduler.core.gang_patience import REREAD_SECONDS
from scheduler.kube.wire import PodStatus
from slurmapi import BaseState, SlurmUnreachable
from tests.unit.service.test_gang_patience import in_group, said
from tests.unit.service.test_gangs import job, member, of_job, runs
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
NODES: Final = ("n1", "n2", "n3", "n4")


@pytest.fixture(autouse=True)
def more_nodes(slurm: TinySlurm, kube: TinyKube) -> None:
    for node in NODES[2:]:
        slurm.add_node(node)
        kube.set_node(node)


async def waits(slurm: TinySlurm, kube: TinyKube, service: Service, size: int) -> int:
    """A batch Job of this size whose Slurm job is pending; returns the latter."""
    kube.groups["train"] = job(size, size)
    service.start()
    for rank in range(size):
        of_job(kube, rank)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    assert slurm.submissions[job_id].nodes == size
    return job_id


def scale(kube: TinyKube, before: int, after: int) -> None:
    """As its controller does when somebody scales the batch Job."""
    kube.groups["train"] = job(after, after)
    for rank in range(after, before):
        kube.delete(f"uid-{rank}")
    for rank in range(before, after):
        of_job(kube, rank)


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (4, 3)])
async def test_job_that_is_pending_is_replaced_by_one_of_the_new_size(
    slurm, kube, service, before, after
):
    former = await waits(slurm, kube, service, before)
    scale(kube, before, after)
    await asyncio.sleep(REREAD_SECONDS + 15)
    (job_id,) = set(slurm.submissions) - {former}
    assert not slurm.live(former)
    assert slurm.submissions[job_id].nodes == after
    await runs(slurm, job_id, *NODES[:after])
    assert dict(kube.bindings) == {f"uid-{rank}": NODES[rank] for rank in range(after)}


@pytest.mark.parametrize("after", [1, 3])
async def test_gang_that_was_scaled_just_before_its_job_starts_gets_another(
    slurm, kube, service, after
):
    former = await waits(slurm, kube, service, 2)
    scale(kube, 2, after)
    await asyncio.sleep(1)
    await runs(slurm, former, "n1", "n2")
    await asyncio.sleep(REREAD_SECONDS + 65)
    (job_id,) = set(slurm.submissions) - {former}
    assert (slurm.live(former), kube.bindings) == (False, [])
    assert slurm.submissions[job_id].nodes == after


@pytest.mark.parametrize("restarts", [False, True])
async def test_batch_job_that_is_scaled_to_one_pod_while_it_waits_is_no_gang_any_more(
    slurm, kube, restarts
):
    first = Service(slurm, kube)
    former = await waits(slurm, kube, first, 4)
    if restarts:
        await first.kill()
        scale(kube, 4, 1)
        kube.relist()
        first = Service(slurm, kube)
        first.start()
    else:
        scale(kube, 4, 1)
    await asyncio.sleep(REREAD_SECONDS + 15)
    (job_id,) = set(slurm.submissions) - {former}
    assert not slurm.live(former)
    assert slurm.submissions[job_id].nodes == 1
    await runs(slurm, job_id, "n1")
    assert kube.bindings == [("uid-0", "n1")]
    first.unharmed()
    await first.kill()


async def test_batch_job_that_is_scaled_to_one_pod_after_it_has_run_is_no_gang_any_more(
    slurm, kube, service
):
    """Its pods that have failed are still there."""
    former = await waits(slurm, kube, service, 2)
    await runs(slurm, former)
    for rank in (0, 1):
        kube.report(f"uid-{rank}", PodStatus(phase="Failed"))
    slurm.end(former, BaseState.NODE_FAIL)
    await asyncio.sleep(5)
    kube.groups["train"] = job(1, 1)
    of_job(kube, 0, uid="anew")
    await asyncio.sleep(REREAD_SECONDS + 90)
    (job_id,) = set(slurm.submissions) - {former}
    assert slurm.submissions[job_id].nodes == 1


async def test_pods_start_singly_when_their_pod_group_asks_for_one_after_all(slurm, kube, service):
    meta = GroupMeta(name="ring", uid="ring-uid")
    kube.groups["ring"] = PluginsPodGroup(meta, PluginsPodGroupSpec(min_member=3))
    service.start()
    in_group(kube, 0)
    in_group(kube, 1)
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 0
    kube.groups["ring"] = PluginsPodGroup(meta, PluginsPodGroupSpec(min_member=1))
    await asyncio.sleep(REREAD_SECONDS + 5)
    assert [it.nodes for it in slurm.submissions.values()] == [1, 1]


async def test_pod_beyond_the_size_of_a_gang_that_runs_is_told_that_it_gets_no_slot(
    slurm, kube, service
):
    job_id = await waits(slurm, kube, service, 2)
    await runs(slurm, job_id)
    scale(kube, 2, 3)
    await asyncio.sleep(REREAD_SECONDS + 5)
    assert said(kube, "uid-2").startswith(f"GangSlotLost: Slurm job {job_id} has no node for")
    assert (slurm.live(job_id), kube.deleted) == (True, [])


async def test_gang_that_is_created_anew_has_the_size_that_its_new_pods_say(slurm, kube, service):
    service.start()
    for rank in (0, 1):
        member(kube, rank)
    await asyncio.sleep(2)
    (former,) = slurm.submissions
    await runs(slurm, former)
    for rank in (0, 1):
        kube.report(f"uid-{rank}", PodStatus(phase="Failed"))
    for rank in range(4):
        member(kube, rank, uid=f"anew-{rank}", size=4)
    await asyncio.sleep(30)
    (job_id,) = set(slurm.submissions) - {former}
    assert not slurm.live(former)
    assert slurm.submissions[job_id].nodes == 4
    await runs(slurm, job_id, *NODES)
    assert len(kube.bindings) == 6


async def test_smaller_gang_does_not_take_over_the_job_of_a_larger_one(slurm, kube, service):
    service.start()
    for rank in range(4):
        member(kube, rank, size=4)
    await asyncio.sleep(2)
    (former,) = slurm.submissions
    await runs(slurm, former, *NODES)
    for rank in range(4):
        kube.report(f"uid-{rank}", PodStatus(phase="Failed"))
    await asyncio.sleep(1)
    for rank in (0, 1):
        member(kube, rank, uid=f"anew-{rank}", size=2)
    await asyncio.sleep(30)
    (job_id,) = set(slurm.submissions) - {former}
    assert not slurm.live(former)
    assert slurm.submissions[job_id].nodes == 2


async def test_index_that_has_completed_is_not_waited_for_when_its_pod_is_gone(
    slurm, kube, service
):
    """Its Node was deleted with it, and the batch Job makes no other."""
    former = await waits(slurm, kube, service, 3)
    await runs(slurm, former, *NODES[:3])
    kube.end_containers("uid-1")
    await asyncio.sleep(5)
    kube.groups["train"] = replace(job(3, 3), status=JobStatus(completed_indexes="1"))
    slurm.end(former, BaseState.NODE_FAIL)
    await asyncio.sleep(5)
    kube.delete("uid-1")
    for rank in (0, 2):
        kube.end_containers(f"uid-{rank}")
        of_job(kube, rank, uid=f"anew-{rank}")
    await asyncio.sleep(REREAD_SECONDS + 75)
    (job_id,) = set(slurm.submissions) - {former}
    assert slurm.submissions[job_id].nodes == 2


async def test_job_of_a_group_that_is_no_gang_any_more_ends_though_its_mark_fails(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    """It was forgotten, and ran on four nodes without a pod."""
    first = Service(slurm, kube)
    job_id = await waits(slurm, kube, first, 4)
    await first.kill()
    kube.groups["train"] = job(1, 1)
    for rank in (1, 2, 3):
        kube.delete(f"uid-{rank}")
    slurm.fail["update"] += [SlurmUnreachable("connection refused")] * 3
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(60)
    assert not slurm.live(job_id)
    assert [it.nodes for it in slurm.submissions.values()] == [4, 1]
    await second.kill()
