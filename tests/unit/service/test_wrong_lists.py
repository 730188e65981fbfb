"""A list that is wrong, and a Slurm that cannot be looked through: no pod pays for it."""

from __future__ import annotations

import asyncio

import pytest

from annotations import PREFIX
from scheduler.kube.errors import KubeInterrupted
from slurmapi import BaseState, SlurmUnreachable
from tests.unit.service.test_gangs import member, started
from tests.unit.service.test_loose_ends import until
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "uid-0"


async def test_pod_that_a_list_lacks_keeps_its_placeholder(slurm, kube, service):
    service.start()
    job_id = await service.bound(UID)
    kube.lose(UID)
    await asyncio.sleep(60)
    assert slurm.live(job_id)
    assert UID in kube.store
    kube.delete(UID)
    kube.end_containers(UID)
    await asyncio.sleep(30)
    assert not slurm.live(job_id)


async def test_pod_that_the_first_list_lacks_keeps_its_placeholder(slurm, kube, service):
    service.start()
    job_id = await service.bound(UID)
    await service.kill()
    kube.relist()
    kube.lose(UID)
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(60)
    assert slurm.live(job_id)
    await successor.kill()
    service.start()


async def test_gang_keeps_its_job_though_a_list_lacks_a_pod_whose_binding_was_not_answered(
    slurm, kube, service
):
    service.start()
    for rank in (0, 1):
        member(kube, rank)
    await asyncio.sleep(5)
    kube.lag = 3.0
    kube.fail["get"].extend(KubeInterrupted("no answer") for _ in range(2))

    def lost(uid: str, _node: str) -> None:
        kube.lose_next_binding = uid == "uid-1"

    kube.on_bind = lost
    slurm.change(1, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await until(lambda: kube.runs("uid-1"), seconds=10)
    kube.lose("uid-1")
    await asyncio.sleep(5)
    kube.end_containers("uid-0")
    await asyncio.sleep(300)
    assert kube.runs("uid-1")
    assert slurm.live(1)


async def test_pod_of_a_gang_that_the_first_list_lacks_keeps_its_slot(slurm, kube):
    first = Service(slurm, kube)
    await started(slurm, kube, first)
    await first.kill()
    kube.relist()
    kube.lose("uid-1")
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(20)
    member(kube, 1, uid="twin")  # of the same rank
    kube.end_containers("uid-0")
    await asyncio.sleep(300)
    assert slurm.live(1)
    assert kube.runs("uid-1")
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n2"}
    await successor.kill()


async def test_rejected_pod_is_told_once_while_jobs_cannot_be_looked_through(slurm, kube, service):
    kube.create(UID, annotations={PREFIX + "timeout": "soon"})
    await asyncio.sleep(1)
    slurm.fail["all_states"].extend([SlurmUnreachable("away")] * 1000)
    service.start()
    await asyncio.sleep(60)
    assert [written.reason for _, (written,) in kube.patches] == ["SchedulingFailed"]


async def test_pod_that_runs_is_not_told_that_it_waits(slurm, kube, service):
    """Its job is lost, and the answer to the next submit too; nobody remembers that it is bound."""
    slurm.lose_next_submit = True
    kube.create(UID, node="n1", annotations={"slurm-pod-scheduler/nodes": "n1"})
    service.start()
    await asyncio.sleep(1)
    slurm.fail["all_states"].extend([SlurmUnreachable("away")] * 10)
    await asyncio.sleep(60)
    assert [job.state.base for job in slurm.jobs.values()] == [BaseState.PENDING]
    assert kube.condition_of(UID) is None
