"""Gangs in the whole service: pods of one group get one job, and share its life."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import pytest

from scheduler.core.gang_objects import BatchJob, GroupMeta, JobSpec
from scheduler.core.gang_sources import MOST_GANG_PODS
from scheduler.core.naming import GANG, GANG_FIRST_NODE, GANG_RANK, GANG_SIZE, JOB_ID
from scheduler.core.owner_tag import read_tag
from scheduler.kube.errors import Forbidden, KubeUnreachable
from scheduler.kube.wire import OwnerReference, PodStatus
from slurmapi import BaseState
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
PREFIX: Final = "sunk.coreweave.com/"
FAILED: Final = PodStatus(phase="Failed")
OWNER: Final = OwnerReference("Job", "train", "job-uid", "batch/v1", controller=True)


def member(kube: TinyKube, rank: int, *, uid: str = "", size: int = 2, gang: str = "train") -> str:
    """A pod of a gang that is formed by annotations."""
    uid = uid or f"uid-{rank}"
    said = {f"{PREFIX}gang": gang, f"{PREFIX}gang-size": str(size)}
    kube.create(uid, name=f"train-{rank}", annotations=said)
    return uid


def add_nodes(slurm: TinySlurm, kube: TinyKube, count: int) -> tuple[str, ...]:
    """So many nodes beside the usual ones, each of Slurm and of Kubernetes."""
    nodes = tuple(f"w{number}" for number in range(count))
    for node in nodes:
        slurm.add_node(node)
        kube.set_node(node)
    return nodes


async def run_on_nodes(
    slurm: TinySlurm, kube: TinyKube, service: Service, size: int
) -> tuple[str, ...]:
    """Start the service with a gang whose job has just started on as many nodes as it has pods;
    none is bound yet.
    """
    nodes = add_nodes(slurm, kube, size)
    service.start()
    for rank in range(size):
        member(kube, rank, size=size)
    await asyncio.sleep(5)
    slurm.change(1, BaseState.RUNNING, nodes=nodes, start_time=1)
    return nodes


def of_job(
    kube: TinyKube,
    rank: int,
    *,
    uid: str = "",
    index: bool = True,
    cpu: str = "4",
    annotations: Mapping[str, str] | None = None,
) -> str:
    """A pod of the batch Job `train`."""
    uid = uid or f"uid-{rank}"
    labels = {
        "batch.kubernetes.io/job-name": "train",
        "batch.kubernetes.io/controller-uid": "job-uid",
    }
    said = {"batch.kubernetes.io/job-completion-index": str(rank)} if index else {}
    said |= annotations or {}
    name = f"train-{rank}-{uid}"
    kube.create(uid, name=name, labels=labels, annotations=said, owner=OWNER, cpu=cpu)
    return uid


def job(parallelism: int = 2, completions: int | None = 2, **more: object) -> BatchJob:
    return BatchJob(
        metadata=GroupMeta(name="train", uid="job-uid"),
        spec=JobSpec(parallelism=parallelism, completions=completions),
    )


async def runs(slurm: TinySlurm, job_id: int, *nodes: str) -> None:
    """Slurm starts the job on these nodes."""
    slurm.change(job_id, BaseState.RUNNING, nodes=nodes or ("n1", "n2"), start_time=1)
    await asyncio.sleep(5)


async def test_pods_of_a_gang_get_one_job_and_are_bound_together(slurm, kube, service):
    service.start()
    member(kube, 1)
    await asyncio.sleep(5)
    assert slurm.calls["submit"] == 0
    said = kube.condition_of("uid-1")
    assert said is not None
    assert said.reason == "GangIncomplete"
    assert said.message.startswith("Gang train (1 of 2 pods exist): waiting for train-0")
    member(kube, 0)
    await asyncio.sleep(2)
    ((job_id, submitted),) = slurm.submissions.items()
    tag = read_tag(submitted.admin_comment)
    assert tag is not None
    assert (submitted.nodes, tag.uids, tag.ranks, tag.group) == (
        2,
        ("uid-0", "uid-1"),
        (0, 1),
        "gang/train",
    )
    await runs(slurm, job_id, "n2", "n1")
    assert dict(kube.bindings) == {"uid-0": "n2", "uid-1": "n1"}
    said_on = kube.pods["uid-1"].metadata.annotations
    assert said_on[JOB_ID] == str(job_id)
    assert said_on[GANG] == tag.key
    assert (said_on[GANG_RANK], said_on[GANG_SIZE], said_on[GANG_FIRST_NODE]) == ("1", "2", "n2")
    assert service.recorder.reasons("uid-0").count("Scheduled") == 1


async def test_number_of_pods_of_a_batch_job_is_read_once(slurm, kube, service):
    kube.groups["train"] = job()
    service.start()
    of_job(kube, 0)
    of_job(kube, 1)
    await asyncio.sleep(2)
    assert len(slurm.submissions) == 1
    await runs(slurm, 1)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n2"}


@pytest.mark.parametrize("found", [job(1, 1), job(2, 10), None])
async def test_pods_that_are_no_gang_are_served_one_by_one(slurm, kube, service, found):
    if found is not None:
        kube.groups["train"] = found
    service.start()
    of_job(kube, 0, index=False)
    await asyncio.sleep(1)
    of_job(kube, 1, index=False)
    await asyncio.sleep(2)
    assert [it.nodes for it in slurm.submissions.values()] == [1, 1]
    tags = [read_tag(it.admin_comment) for it in slurm.submissions.values()]
    assert [None if it is None else it.uids for it in tags] == [("uid-0",), ("uid-1",)]


async def test_job_that_may_not_be_read_is_no_gang(slurm, kube, service):
    kube.fail["get_group"].append(Forbidden(403, message="jobs.batch is forbidden"))
    service.start()
    of_job(kube, 0)
    await asyncio.sleep(2)
    assert [it.nodes for it in slurm.submissions.values()] == [1]


async def started(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """A gang of two pods that runs; returns its job."""
    service.start()
    member(kube, 0)
    member(kube, 1)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    await runs(slurm, job_id)
    return job_id


async def job_started(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """A batch Job of two pods that run, on n1 and n2; returns its Slurm job."""
    kube.groups["train"] = job()
    service.start()
    of_job(kube, 0)
    of_job(kube, 1)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    await runs(slurm, job_id, "n1", "n2")
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n2"}
    return job_id


async def test_pod_that_fails_gets_its_slot_back_without_a_new_job(slurm, kube, service):
    job_id = await started(slurm, kube, service)
    kube.report("uid-1", FAILED)
    await asyncio.sleep(3)
    member(kube, 1, uid="anew")
    await asyncio.sleep(5)
    assert dict(kube.bindings)["anew"] == "n2"
    tag = read_tag(slurm.jobs[job_id].admin_comment)
    assert tag is not None
    assert tag.uids == ("uid-0", "anew")
    assert slurm.calls["submit"] == 1
    assert slurm.live(job_id)


async def test_job_ends_a_while_after_its_last_pod(slurm, kube, service):
    job_id = await started(slurm, kube, service)
    kube.report("uid-0", FAILED)
    kube.report("uid-1", FAILED)
    await asyncio.sleep(50)
    assert slurm.live(job_id)
    await asyncio.sleep(20)
    assert not slurm.live(job_id)


async def test_job_ends_at_once_when_all_pods_have_succeeded(slurm, kube, service):
    job_id = await started(slurm, kube, service)
    kube.end_containers("uid-0")
    await asyncio.sleep(70)
    assert slurm.live(job_id)
    kube.end_containers("uid-1")
    await asyncio.sleep(5)
    assert not slurm.live(job_id)


async def test_end_of_the_job_ends_both_pods(slurm, kube, service):
    job_id = await started(slurm, kube, service)
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(5)
    assert sorted(kube.deleted) == ["uid-0", "uid-1"]
    assert service.recorder.reasons("uid-0").count("Preempted") == 1


async def test_gang_that_comes_again_after_its_job_has_ended_gets_a_new_one(slurm, kube, service):
    job_id = await started(slurm, kube, service)
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(5)
    for rank in (0, 1):
        kube.end_containers(f"uid-{rank}")
        member(kube, rank, uid=f"anew-{rank}")
    await asyncio.sleep(40)
    (again,) = set(slurm.submissions) - {job_id}
    await runs(slurm, again)
    assert {uid for uid, _ in kube.bindings} == {"uid-0", "uid-1", "anew-0", "anew-1"}


async def test_next_process_knows_the_gang_again(slurm, kube):
    first = Service(slurm, kube)
    job_id = await started(slurm, kube, first)
    await first.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(5)
    kube.report("uid-1", FAILED)
    member(kube, 1, uid="anew")
    await asyncio.sleep(5)
    assert dict(kube.bindings)["anew"] == "n2"
    assert slurm.calls["submit"] == 1
    assert slurm.live(job_id)
    assert kube.deleted == []
    second.unharmed()
    await second.kill()


async def test_pod_that_was_submitted_alone_before_there_were_gangs_stays_alone(slurm, kube):
    """Its job's id stands on it, and no gang beside it."""
    kube.groups["train"] = job()
    first = Service(slurm, kube)
    first.start()
    kube.create("uid-0", name="train-0")
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1",), start_time=1)
    await asyncio.sleep(3)
    await first.kill()
    pod = kube.pods["uid-0"].metadata
    kube.force_delete("uid-0")
    kube.create(
        "uid-0",
        name="train-0",
        node="n1",
        annotations={**pod.annotations, f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "2"},
        phase="Running",
    )
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(10)
    assert kube.deleted == []
    assert slurm.live(job_id)
    assert slurm.calls["submit"] == 1
    await second.kill()


async def test_size_beyond_all_bounds_costs_nothing(slurm, kube, service):
    service.start()
    member(kube, 0, size=MOST_GANG_PODS + 1)
    member(kube, 1, uid="other", size=10**9, gang="other")
    await asyncio.sleep(3)
    for uid, value in (("uid-0", str(MOST_GANG_PODS + 1)), ("other", str(10**9))):
        said = kube.condition_of(uid)
        assert said is not None
        assert said.reason == "SchedulingFailed"
        assert value in said.message
    assert slurm.calls["submit"] == 0


async def test_gang_deleted_half_bound_leaves_no_job(slurm, kube, service):
    """The API server does not answer for the second pod, and both go before it is asked again."""
    service.start()
    member(kube, 0)
    member(kube, 1)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    kube.fail["bind"].append(KubeUnreachable("cut"))
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    for _ in range(1000):
        if kube.bindings:
            break
        await asyncio.sleep(0.01)
    ((bound, _),) = kube.bindings
    for uid in ("uid-0", "uid-1"):
        kube.delete(uid)
    await asyncio.sleep(5)
    assert slurm.live(job_id)  # the containers of the one that is bound may still run
    kube.end_containers(bound)
    await asyncio.sleep(80)
    assert not slurm.live(job_id)
    assert len(slurm.submissions) == 1
    assert len(kube.bindings) == 1


async def test_copy_of_a_pod_that_names_a_job_does_not_dissolve_its_gang(slurm, kube, service):
    """The gang's next pod was then served alone, on another node than its slot."""
    service.start()
    for rank in (0, 1):
        member(kube, rank)
    await asyncio.sleep(5)
    slurm.change(1, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "2", JOB_ID: "4711"}
    kube.create("copy", name="copy", annotations=said)
    await asyncio.sleep(5)
    kube.report("uid-1", FAILED)
    kube.delete("uid-1")
    member(kube, 1, uid="new-1")
    await asyncio.sleep(60)
    assert ("new-1", "n2") in kube.bindings
