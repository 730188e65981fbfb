"""Gangs whose jobs, pods or nodes have gone through something before: nothing more is taken from
them than was lost.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from scheduler.core.event_reasons import Reason
from scheduler.kube.wire import PodStatus
from scheduler.state.pod_remains import KUBELET_SECONDS
from slurmapi import BaseState, SlurmInvalid, SlurmUnreachable
from tests.unit.service.test_gangs import job_started, member, of_job
from tests.unit.service.test_hard_luck import again
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
# Longer than the allocation of a gang is kept whose pods have failed.
_LINGERED_SECONDS: Final = 120.0
GRACE: Final = 20  # of each pod here
NODES = ("n1", "n2", "n3", "n4", "n5")


def five_nodes(slurm: TinySlurm, kube: TinyKube) -> None:
    for name in NODES[2:]:
        slurm.add_node(name)
        kube.set_node(name)
    slurm.nodes_in["main"] = NODES


async def gang_runs(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """Two pods on n1 and n2; the id of their job."""
    service.start()
    for rank in (0, 1):
        member(kube, rank)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    assert len(kube.bindings) == 2
    return job_id


@pytest.mark.parametrize("finished", [False, True])
async def test_job_that_replaces_a_lost_one_is_kept_by_the_next_process_whoever_has_finished(
    slurm, kube, finished
):
    first = Service(slurm, kube)
    job_id = await gang_runs(slurm, kube, first)
    if finished:
        kube.end_containers("uid-0")
    await asyncio.sleep(5)
    kube.refuses["patch"] = "no"  # the new job's id cannot be written
    slurm.end(job_id, BaseState.OUT_OF_MEMORY)
    await asyncio.sleep(5)
    instead = max(slurm.submissions)
    nodes = tuple(sorted(slurm.submissions[instead].required_nodes))
    assert nodes == (("n2",) if finished else ("n1", "n2"))
    slurm.change(instead, BaseState.RUNNING, nodes=nodes, start_time=1)
    await asyncio.sleep(2)
    await first.kill()
    kube.relist()
    kube.refuses.clear()
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(60)
    await successor.kill()
    assert slurm.live(instead), "it holds the node of a pod that runs"


async def test_gang_avoids_only_the_node_of_the_pod_in_its_way(slurm, kube, service):
    five_nodes(slurm, kube)
    service.start()
    await service.bound("lonely", name="lonely")
    slurm.forget(1)
    refused = SlurmInvalid("no", error_number=2000, status=500)
    slurm.job_submit = lambda job: refused if "lonely" in job.name else None
    await asyncio.sleep(10)
    for rank in range(3):
        member(kube, rank, size=3)
    await asyncio.sleep(5)
    job_id = max(slurm.submissions)
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1", "n2", "n3"), start_time=1)
    await asyncio.sleep(80)
    again = max(slurm.submissions)
    assert again > job_id
    assert slurm.submissions[again].excluded_nodes == ("n1",)


async def test_gang_with_more_pods_than_its_size_gets_no_job_and_says_why(slurm, kube, service):
    service.start()
    for rank in range(3):
        member(kube, rank, size=2)
    await asyncio.sleep(60)
    assert slurm.calls["submit"] == 0
    said = kube.condition_of("uid-0")
    assert (said.reason, "more pods than its size, 2" in said.message) == (
        Reason.GANG_INCOMPLETE,
        True,
    )
    kube.force_delete("uid-2")
    await asyncio.sleep(60)
    assert slurm.calls["submit"] == 1


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
async def test_job_of_a_finished_gang_ends_also_if_slurm_forgets_its_cancel(
    slurm, kube, service, phase
):
    job_id = await gang_runs(slurm, kube, service)
    saved = slurm.jobs[job_id]
    for rank in (0, 1):
        kube.report(f"uid-{rank}", PodStatus(phase=phase))
    await asyncio.sleep(_LINGERED_SECONDS)
    assert not slurm.live(job_id)
    slurm.jobs[job_id] = saved
    slurm.boot_time += 100
    await asyncio.sleep(600)
    assert not slurm.live(job_id)


@pytest.mark.parametrize("restart", [False, True])
async def test_pod_whose_seat_slurm_has_forgotten_ends_with_its_job(slurm, kube, restart):
    first = Service(slurm, kube)
    job_id = await gang_runs(slurm, kube, first)
    saved = slurm.jobs[job_id]
    kube.report("uid-1", PodStatus(phase="Failed"))
    await asyncio.sleep(3)
    member(kube, 1, uid="anew")
    await asyncio.sleep(5)
    assert dict(kube.bindings)["anew"] == "n2"
    slurm.jobs[job_id] = saved
    slurm.boot_time += 100
    for operation in ("states", "job", "ping"):
        slurm.fail[operation].extend([SlurmUnreachable("away")] * 8)
    await asyncio.sleep(60)
    service = first
    if restart:
        await first.kill()
        kube.relist()
        service = Service(slurm, kube)
        service.start()
    await asyncio.sleep(120)
    slurm.end(job_id, BaseState.CANCELLED)
    await asyncio.sleep(120)
    await service.kill()
    assert sorted(kube.deleted) == ["anew", "uid-0"]


@pytest.mark.parametrize("restarts", [False, True])
async def test_gang_keeps_its_nodes_though_the_job_of_its_former_pods_comes_back(
    slurm, kube, restarts
):
    """slurmctld starts with an older state, in which it does not know the gang's present job."""
    five_nodes(slurm, kube)
    service = Service(slurm, kube)
    former = await gang_runs(slurm, kube, service)
    saved = slurm.jobs[former]
    slurm.end(former, BaseState.CANCELLED)
    await asyncio.sleep(10)
    for uid in ("uid-0", "uid-1"):
        kube.end_containers(uid)
    for rank in (0, 1):
        member(kube, rank, uid=f"new-{rank}")
    await asyncio.sleep(10)
    present = max(slurm.submissions)
    slurm.change(present, BaseState.RUNNING, nodes=("n3", "n4"), start_time=1)
    await asyncio.sleep(10)
    assert sorted(kube.bindings[2:]) == [("new-0", "n3"), ("new-1", "n4")]
    ended = list(kube.deleted)
    if restarts:
        await service.kill()
    slurm.forget(present)
    slurm.jobs[former] = saved
    if restarts:
        kube.relist()
        service = Service(slurm, kube)
        service.start()
    service.census.ask()
    # A new process does not know whether the containers of the former pods had stopped.
    await asyncio.sleep(GRACE + KUBELET_SECONDS + 30 if restarts else 30)
    assert not slurm.live(former), "it held nodes that no pod uses"
    again = max(slurm.submissions)
    assert slurm.submissions[again].required_nodes == ("n3", "n4")
    slurm.change(again, BaseState.RUNNING, nodes=("n3", "n4"), start_time=1)
    await asyncio.sleep(600)
    assert kube.deleted == ended
    assert [it for it in slurm.jobs if slurm.live(it)] == [again]
    service.unharmed()
    await service.kill()


@pytest.mark.parametrize("requeued", [False, True])
async def test_pod_of_a_gang_that_is_deleted_by_force_may_still_run_where_another_rank_comes(
    slurm, kube, service, requeued
):
    """Its rank waits, and so does every other rank that the next job puts onto its node."""
    five_nodes(slurm, kube)
    job_id = await gang_runs(slurm, kube, service)
    if requeued:
        slurm.requeue(job_id)
    else:
        slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(3)
    kube.end_containers("uid-0")
    kube.force_delete("uid-1")
    for rank in (0, 1):
        member(kube, rank, uid=f"new-{rank}")
    await asyncio.sleep(4)
    again = max(slurm.submissions)
    now = int(slurm.now())
    slurm.change(again, BaseState.RUNNING, nodes=("n2", "n3"), start_time=now)
    await asyncio.sleep(35)
    assert ("new-0", "n2") not in kube.bindings, "20 s of grace, and 30 s"
    await asyncio.sleep(60)
    assert ("new-0", "n2") in kube.bindings


@pytest.mark.parametrize("replaced", [False, True])
async def test_pods_deleted_by_force_while_no_scheduler_runs_are_waited_for(slurm, kube, replaced):
    """New pods of the same ranks get the slots of the same job once the containers must have
    stopped. Before, another pod of the gang may have been replaced, which changes the job's tag.
    """
    first = Service(slurm, kube)
    job_id = await gang_runs(slurm, kube, first)
    if replaced:
        kube.force_delete("uid-1")
        await asyncio.sleep(1)
        kube.report("uid-0", PodStatus(phase="Failed"))
        for rank in (0, 1):
            member(kube, rank, uid=f"new-{rank}")
        await asyncio.sleep(5)
        assert ("new-0", "n1") in kube.bindings
    await first.kill()
    if not replaced:
        for rank in (0, 1):
            kube.force_delete(f"uid-{rank}")
            member(kube, rank, uid=f"new-{rank}")
    kube.relist()
    service = Service(slurm, kube)
    service.start()
    await asyncio.sleep(GRACE + KUBELET_SECONDS - 2)
    assert ("new-1", "n2") not in kube.bindings
    await asyncio.sleep(20)
    assert ("new-1", "n2") in kube.bindings
    assert ("new-0", "n1") in kube.bindings
    assert [it for it in slurm.jobs if slurm.live(it)] == [job_id]
    await service.kill()


@pytest.mark.parametrize("restart", [False, True])
async def test_pod_that_an_edit_takes_out_of_its_gang_keeps_its_place(slurm, kube, restart):
    """Its controller replaces it, and the gang's job is kept for it as long as it runs."""
    service = Service(slurm, kube)
    job_id = await job_started(slurm, kube, service)
    await asyncio.sleep(5)
    node = dict(kube.bindings)["uid-0"]
    kube.release("uid-0")
    of_job(kube, 0, uid="anew")
    if restart:
        service = await again(service, slurm, kube)
    await asyncio.sleep(60)
    assert "anew" not in dict(kube.bindings)
    kube.end_containers("uid-1")
    await asyncio.sleep(400)
    assert (kube.deleted, slurm.live(job_id)) == ([], True)
    said = kube.condition_of("anew")
    assert said is not None
    # The process that knew it before the edit goes on to count it as a pod of the gang.
    assert ("may still run in this pod's place" in said.message) == restart
    kube.end_containers("uid-0")
    await asyncio.sleep(30)
    assert dict(kube.bindings)["anew"] == node
    await service.kill()
