"""Jobs that Slurm has started and that cannot be used yet: many of them cost Slurm no more."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.intervals import UNFIT_SECONDS
from scheduler.core.naming import JOB_ID, JOB_NODES
from slurmapi import BaseState
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
COUNT = 40
OLD = "old"


async def start_all(service: Service, *flags: str) -> None:
    """Pods whose jobs Slurm has started on a node where another one still stops."""
    kube = service.kube
    kube.create(OLD, name="old", node="n1", annotations={JOB_ID: "999", JOB_NODES: "n1"})
    kube.delete(OLD)
    for number in range(COUNT):
        kube.create(f"uid-{number}", name=f"train-{number}")
    await asyncio.sleep(2 * kube.lag)
    service.start()
    await asyncio.sleep(10)
    for job_id in service.slurm.jobs:
        service.slurm.start(job_id, *flags, node="n1")
    await asyncio.sleep(5)


@pytest.mark.parametrize("flags", [("CONFIGURING",), ()], ids=["made ready", "one still stops"])
async def test_crowd_that_is_held_up_is_not_looked_at_one_by_one(slurm, kube, service, flags):
    await start_all(service, *flags)
    slurm.calls.clear()
    await asyncio.sleep(UNFIT_SECONDS - 20)
    assert slurm.calls["job"] <= COUNT
    assert kube.bindings == []
    kube.end_containers(OLD)
    for job_id in slurm.jobs:
        slurm.change(job_id, BaseState.RUNNING)
    await asyncio.sleep(10)
    assert sorted(kube.bindings) == sorted((uid, "n1") for uid in kube.pods)


async def test_pod_whose_node_is_made_ready_at_once_costs_one_look(slurm, kube, service):
    kube.create("uid-0", name="train-0")
    service.start()
    await asyncio.sleep(0.5)
    slurm.start(1, "CONFIGURING")
    await asyncio.sleep(0.5)
    slurm.change(1, BaseState.RUNNING)
    await asyncio.sleep(0.5)
    assert kube.bindings == [("uid-0", "n1")]
    assert slurm.calls["job"] == 1


async def start_configuring(service: Service) -> None:
    """Pods whose jobs Slurm has started on a node that is being made ready."""
    for number in range(COUNT):
        service.kube.create(f"uid-{number}", name=f"train-{number}")
    service.start()
    await asyncio.sleep(0.5)
    for job_id in service.slurm.jobs:
        service.slurm.start(job_id, "CONFIGURING", node="n1")


async def test_crowd_whose_nodes_are_made_ready_costs_a_few_requests_a_second(slurm, kube, service):
    """As in a burst on busy servers: the slower they are, the less may be asked of them."""
    await start_configuring(service)
    patches, seconds = len(kube.patches), 5
    await asyncio.sleep(seconds)
    most = 2 * seconds + 4
    assert 0 < slurm.calls["job"] <= most
    assert 0 < len(kube.patches) - patches <= most
    passes = service.metric("workqueue_adds_total")
    await asyncio.sleep(1)
    assert service.metric("workqueue_adds_total") - passes < COUNT, "no pass each second"
    slurm.calls.clear()
    for job_id in slurm.jobs:
        slurm.change(job_id, BaseState.RUNNING)
    await asyncio.sleep(2)
    assert len(kube.bindings) == COUNT
    assert slurm.calls["job"] <= COUNT + most


async def test_each_pod_of_a_crowd_says_in_time_that_its_node_is_made_ready(slurm, kube, service):
    await start_configuring(service)
    await asyncio.sleep(COUNT / 2 + 6)
    for uid in kube.pods:
        condition = kube.condition_of(uid)
        assert condition is not None
        assert "has n1, which is being made ready" in condition.message


async def test_job_that_starts_elsewhere_after_a_requeue_is_not_held_up_there(slurm, kube, service):
    await start_all(service)
    slurm.requeue(1)
    await asyncio.sleep(5)
    slurm.start(1, node="n2")
    slurm.calls.clear()
    await asyncio.sleep(5)
    assert slurm.asked.count(("job", (1,))) > 0
    assert ("uid-0", "n2") in kube.bindings


@pytest.mark.parametrize("base", [BaseState.PREEMPTED, BaseState.NODE_FAIL, BaseState.CANCELLED])
async def test_end_of_a_job_that_is_held_up_is_seen(slurm, kube, service, base):
    await start_all(service)
    slurm.end(1, base)
    await asyncio.sleep(10)
    new = len(slurm.jobs) > COUNT
    assert new or kube.deleted == ["uid-0"]
    assert kube.bindings == []
