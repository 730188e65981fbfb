"""How a pod ended, in words, and how the words get onto its job."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.core.owner_tag import OwnerTag, read_tag
from scheduler.execute.farewell import with_outcome
from scheduler.facts.outcome import outcome_of
from scheduler.kube.wire import (
    ContainerState,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    StateTerminated,
)
from slurmapi import BaseState, Job, SlurmBusy, SlurmDenied
from tests.unit.core.things import record, tag
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"


def ended(name: str, code: int, reason: str = "") -> ContainerStatus:
    terminated = StateTerminated(exit_code=code, reason=reason)
    return ContainerStatus(name=name, state=ContainerState(terminated=terminated))


def pod(phase: str = "Running", *, leaving: bool = False, node: str = "n1", **status: Any) -> Pod:
    at = datetime(2026, 1, 1, tzinfo=UTC) if leaving else None
    return Pod(
        metadata=ObjectMeta(name="train", uid=UID, deletion_timestamp=at),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase, **status),
    )


def owner_tag(job: Job) -> OwnerTag:
    found = read_tag(job.admin_comment)
    assert found is not None
    return found


EVICTED = (PodCondition("DisruptionTarget", "True", "EvictionByEvictionAPI"),)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (pod(), ""),
        (pod("Succeeded", container_statuses=(ended("main", 0),)), "pod Succeeded"),
        (
            pod("Failed", container_statuses=(ended("main", 137, "OOMKilled"),)),
            "pod Failed: container main exit 137 OOMKilled",
        ),
        (
            pod("Failed", container_statuses=(ended("main", 3, "Error"), ended("side", 0))),
            "pod Failed: container main exit 3",
        ),
        (
            pod("Failed", init_container_statuses=(ended("setup", 1, "Error"),)),
            "pod Failed: container setup exit 1",
        ),
        (pod("Failed", reason="DeadlineExceeded"), "pod Failed: DeadlineExceeded"),
        (pod(leaving=True), "pod deleted"),
        (
            pod(leaving=True, conditions=EVICTED, container_statuses=(ended("main", 143),)),
            "pod deleted: EvictionByEvictionAPI, container main exit 143",
        ),
        (
            pod("Failed", leaving=True, container_statuses=(ended("main", 143, "Error"),)),
            "pod deleted: container main exit 143",
        ),
        (pod("Pending", leaving=True, node=""), "pod deleted before it was bound"),
    ],
)
def test_outcome_in_words(found, told):
    assert outcome_of(found) == told


@pytest.mark.parametrize(
    ("comment", "then"),
    [
        ("", "pod Succeeded"),
        ("mine", "mine; pod Succeeded"),
        ("x" * 1009, "x" * 1009 + "; pod Succeeded"),
        ("x" * 1010, "x" * 1010),
        ("é" * 504, "é" * 504 + "; pod Succeeded"),
        ("é" * 505, "é" * 505),
    ],
)
def test_users_comment_stays_whole(comment, then):
    noted = with_outcome(record(comment=comment), "pod Succeeded")
    assert noted.comment == then
    assert owner_tag(noted).outcome == "pod Succeeded"


def test_outcome_is_noted_once_and_on_our_own_jobs_only():
    noted = with_outcome(record(comment="mine"), "pod Succeeded")
    assert with_outcome(noted, "pod deleted") == noted
    assert with_outcome(record(admin_comment="another's"), "pod deleted").comment == ""
    assert with_outcome(record(), "") == record()


async def bound(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    service.start()
    await asyncio.sleep(3)
    kube.create(UID)
    await asyncio.sleep(1)
    (job_id,) = slurm.jobs
    slurm.change(job_id, BaseState.PENDING, comment="mine")
    slurm.start(job_id)
    await asyncio.sleep(3)
    assert kube.bindings == [(UID, "n1")]
    return int(job_id)


async def test_outcome_is_on_the_job_before_it_is_cancelled(slurm, kube, service):
    job_id = await bound(slurm, kube, service)
    kube.end_containers(UID)
    await asyncio.sleep(5)
    assert slurm.jobs[job_id].comment == "mine; pod Succeeded"
    assert owner_tag(slurm.jobs[job_id]).uids == (UID,)
    assert not slurm.live(job_id)
    assert slurm.calls["update"] == 1


@pytest.mark.parametrize(
    "error", [SlurmBusy("later", status=429), SlurmDenied("no", error_number=2010)]
)
async def test_job_is_cancelled_though_its_outcome_cannot_be_written(slurm, kube, service, error):
    job_id = await bound(slurm, kube, service)
    slurm.fail["update"].append(error)
    kube.end_containers(UID)
    await asyncio.sleep(5)
    assert not slurm.live(job_id)
    assert slurm.calls["update"] == 1
    assert service.acted("note", error.outcome) == 1


async def test_slurm_that_is_slow_to_take_an_outcome_delays_no_cancel(slurm, kube, service):
    job_id = await bound(slurm, kube, service)

    async def stuck(job_id: int, **changes: object) -> None:
        await asyncio.sleep(1000)

    slurm.update_job = stuck
    kube.end_containers(UID)
    await asyncio.sleep(5)
    assert not slurm.live(job_id)
    await asyncio.sleep(5)
    assert len(service.units) == 0


async def test_crowd_that_ends_does_not_wait_for_a_slow_slurm_one_by_one(slurm, kube, service):
    """Workers are few; each would wait for each pod of theirs."""
    service.start()
    await asyncio.sleep(3)
    for number in range(100):
        kube.create(f"uid-{number}", name=f"pod-{number}")
    await asyncio.sleep(60)
    assert len(slurm.jobs) == 100

    async def stuck(job_id: int, **changes: object) -> None:
        await asyncio.sleep(1000)

    slurm.update_job = stuck
    for number in range(100):
        kube.delete(f"uid-{number}")
    await asyncio.sleep(7)
    assert not [job_id for job_id in slurm.jobs if slurm.live(job_id)]


async def test_what_a_user_wrote_since_the_last_look_stays(slurm, kube, service):
    job_id = await bound(slurm, kube, service)
    service.units.get(UID).job.looked_at = asyncio.get_running_loop().time() + 1000
    slurm.change(job_id, BaseState.RUNNING, comment="written later")
    kube.end_containers(UID)
    await asyncio.sleep(5)
    assert slurm.jobs[job_id].comment == "written later; pod Succeeded"


async def test_pod_that_went_while_nobody_watched_is_gone(slurm, kube, service):
    orphan = slurm.add(admin_comment=tag(uids=("gone-uid",)))
    service.start()
    await asyncio.sleep(10)
    assert slurm.jobs[orphan].comment == "pod gone"
    assert not slurm.live(orphan)
