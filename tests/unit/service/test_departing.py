"""Pods that are being deleted when their job ends, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.kube.errors import KubeUnreachable
from slurmapi import BaseState
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"


async def run_one(service: Service) -> int:
    service.start()
    return await service.bound(UID)


async def test_pod_with_a_long_grace_is_hurried_when_its_job_ends(slurm, kube, service):
    job_id = await run_one(service)
    kube.delete(UID, grace=3600)
    await asyncio.sleep(60)
    assert kube.deleted == [], "its job holds the node: it has all the time it was given"
    slurm.end(job_id, BaseState.CANCELLED)
    await asyncio.sleep(5)
    assert kube.graces == [20]
    (events,) = [it for it in service.recorder.events if it.reason == "PlaceholderCancelled"]
    assert "20 s" in events.message
    await asyncio.sleep(600)
    assert kube.graces == [20], "once"


async def test_pod_that_was_deleted_before_a_restart_is_hurried(slurm, kube):
    former = Service(slurm, kube)
    job_id = await run_one(former)
    await former.kill()
    kube.delete(UID, grace=3600)
    slurm.end(job_id, BaseState.PREEMPTED)
    kube.relist()
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(10)
    assert kube.graces == [20]
    successor.unharmed()
    await successor.kill()


async def test_second_deletion_that_fails_is_tried_again(slurm, kube, service):
    job_id = await run_one(service)
    kube.delete(UID, grace=3600)
    kube.fail["delete"].append(KubeUnreachable("refused"))
    slurm.end(job_id, BaseState.CANCELLED)
    await asyncio.sleep(10)
    assert kube.graces == [20]
