"""I15: an ending is acted upon whatever else is queued, in virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from scheduler.facts.memberships import Memberships
from scheduler.kube.wire import ObjectMeta, Pod, PodSpec, PodStatus
from scheduler.reconcile.controller import shifts
from scheduler.reconcile.urgency import Level, Urgency
from scheduler.slurm.submit_times import MEASURED_SECONDS
from scheduler.state.gangs import Gangs
from scheduler.state.member import Member, by_uid
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState, JobState
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
NEW_PODS = 5000
SUBMIT_SECONDS = 5.0
OLD_PODS = 500
LOOK_SECONDS = 1.0
HUNG_PODS = 60
# The idle pulse, two requests and two passes are not the queue's.
PULSE_SECONDS = 2.5


async def bound(slurm: TinySlurm, uid: str = "first") -> int:
    """Once the pod of that name has a job, start it; gives the job."""
    await asyncio.sleep(1)
    job_id = max(slurm.jobs)
    slurm.start(job_id)
    await asyncio.sleep(5)
    return job_id


async def until_deleted(kube: TinyKube, uid: str) -> float:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while uid not in kube.deleted:
        assert loop.time() < began + 600, f"{uid} is not deleted"
        await asyncio.sleep(0.05)
    return loop.time() - began


async def test_ending_waits_for_no_submit_with_5000_new_pods(
    slurm: TinySlurm, kube: TinyKube, service: Service
) -> None:
    service.start()
    kube.create("first")
    job_id = await bound(slurm)
    assert kube.bindings == [("first", "n1")]
    slurm.seconds["submit"] = SUBMIT_SECONDS
    for number in range(NEW_PODS):
        kube.create(f"new-{number}", name=f"new-{number}")
    await asyncio.sleep(3)
    slurm.end(job_id, BaseState.PREEMPTED)
    assert await until_deleted(kube, "first") < 1.0 + PULSE_SECONDS
    assert slurm.calls["submit"] < NEW_PODS / 10


async def test_bind_waits_for_no_submit(slurm: TinySlurm, kube: TinyKube, service: Service) -> None:
    service.start()
    kube.create("first")
    await asyncio.sleep(1)
    slurm.seconds["submit"] = SUBMIT_SECONDS
    for number in range(1000):
        kube.create(f"new-{number}", name=f"new-{number}")
    await asyncio.sleep(3)
    slurm.start(1)
    await asyncio.sleep(1.0 + PULSE_SECONDS)
    assert kube.bindings == [("first", "n1")]


async def test_new_pods_are_served_beside_endless_urgent_work(
    slurm: TinySlurm, kube: TinyKube, service: Service
) -> None:
    """Ten thousand pods that go, all at once, do not keep a new one waiting for long."""
    for number in range(1000):
        kube.create(f"old-{number}", name=f"old-{number}", node="n1")
    slurm.seconds["job"] = 1.0
    service.start()
    kube.create("new", name="new")
    await asyncio.sleep(30)
    assert service.units.get("new") is not None


async def test_thousands_of_pods_of_one_namespace_delay_no_pod_of_another(
    slurm: TinySlurm, kube: TinyKube, service: Service
) -> None:
    """Namespaces take turns: what waits before the pod is what the workers have in hand."""
    service.start()
    slurm.seconds["submit"] = SUBMIT_SECONDS
    for number in range(NEW_PODS):
        kube.create(f"hog-{number}", name=f"hog-{number}", namespace="hog")
    await asyncio.sleep(1)
    kube.create("honest", name="honest", namespace="honest")
    await asyncio.sleep(2 * SUBMIT_SECONDS + PULSE_SECONDS)
    unit = service.units.get("honest")
    assert unit is not None
    assert unit.job is not None


async def test_new_pod_does_not_wait_for_the_first_look_at_each_job_that_was_there_before(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    former = Service(slurm, kube)
    former.start()
    for number in range(OLD_PODS):
        kube.create(f"old-{number}", name=f"old-{number}")
    await asyncio.sleep(MEASURED_SECONDS + 60)
    assert slurm.calls["submit"] == OLD_PODS
    await former.kill()
    slurm.seconds["job"] = LOOK_SECONDS
    kube.relist()
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(1)
    looks = slurm.calls["job"]
    kube.create("new", name="new", created=datetime.fromtimestamp(slurm.now(), UTC))
    await asyncio.sleep(4 * LOOK_SECONDS)
    unit = successor.units.get("new")
    assert unit is not None
    assert unit.job is not None
    assert slurm.calls["job"] - looks < OLD_PODS / 2, "there was nothing to wait for"
    successor.unharmed()
    await successor.kill()


@pytest.mark.parametrize("operation", ["bind", "patch", "delete"])
async def test_writes_that_hang_in_one_namespace_hold_up_no_other(
    slurm: TinySlurm, kube: TinyKube, service: Service, operation: str
) -> None:
    """A webhook that is slow for one namespace holds those workers that serve it."""
    service.start()
    kube.create("first", namespace="honest")
    job_id = await bound(slurm)
    for number in range(HUNG_PODS):
        kube.create(f"hog-{number}", name=f"hog-{number}", namespace="hog", cpu="1")
    if operation == "delete":
        await asyncio.sleep(3)
        for job in range(job_id + 1, job_id + 1 + HUNG_PODS):
            slurm.start(job, node="n2")
        await asyncio.sleep(10)
        assert len(kube.bindings) == 1 + HUNG_PODS
    kube.seconds["hog", operation] = 10.0
    await asyncio.sleep(3)
    for job in sorted(slurm.jobs)[1:]:
        if operation == "bind":
            slurm.start(job, node="n2")
        if operation == "delete":
            slurm.end(job, BaseState.PREEMPTED)
    await asyncio.sleep(3)
    kube.create("new", name="new", namespace="honest")
    slurm.end(job_id, BaseState.PREEMPTED)
    assert await until_deleted(kube, "first") < 1.0 + PULSE_SECONDS
    unit = service.units.get("new")
    assert unit is not None
    assert unit.job is not None


@pytest.mark.parametrize("count", [1, 3, 4, 48, 512])
def test_some_workers_are_kept_for_what_is_urgent(count: int) -> None:
    taken = shifts(count)
    assert len(taken) == max(count, 3)
    assert {Level.URGENT, Level.RELEASE, Level.REST} == set(taken)
    assert taken.count(Level.REST) >= len(taken) // 3


def test_unit_is_as_urgent_as_its_pods_together() -> None:
    units, pods = Units(), dict[str, Pod]()
    urgency = Urgency(units, Gangs(Memberships((), prefixes=()), pods), pods)
    members = (Member("a", "train-0"), Member("b", "train-1"))
    job = Placeholder(7, state=JobState(BaseState.RUNNING))
    units.add(Unit("group", "ns", "train", seen_at=0.0, job=job, members=by_uid(members)))
    assert urgency("group") is Level.RELEASE  # no pod is left
    pods |= {uid: Pod(ObjectMeta(uid=uid, namespace="ns")) for uid in ("a", "b")}
    assert urgency("group") is Level.URGENT  # to be bound
    finished = PodStatus(phase="Succeeded")
    pods["a"] = Pod(ObjectMeta(uid="a", namespace="ns"), PodSpec(node_name="n1"), finished)
    assert urgency("group") is Level.URGENT  # the other pod is still to be bound
    pods["b"] = Pod(ObjectMeta(uid="b", namespace="ns"), PodSpec(node_name="n2"))
    assert urgency("group") is Level.REST  # it needs the job
    pods["b"] = Pod(ObjectMeta(uid="b", namespace="ns"), PodSpec(node_name="n2"), finished)
    assert urgency("group") is Level.RELEASE
    assert urgency.line("group") == ("ns", True)


async def test_level_follows_what_is_known(
    slurm: TinySlurm, kube: TinyKube, service: Service
) -> None:
    urgency = Urgency(service.units, Gangs(Memberships((), prefixes=()), kube.store), kube.store)
    assert urgency("nobody") is Level.REST
    service.start()
    kube.create("first")
    await asyncio.sleep(0.005)
    assert urgency("first") is Level.REST  # not seen yet
    await asyncio.sleep(1)
    assert urgency("first") is Level.WORDS  # it has a job, and was not told
    await asyncio.sleep(2)
    assert urgency("first") is Level.REST  # its job waits
    unit = service.units.get("first")
    assert unit is not None
    assert unit.job is not None
    slurm.start(1)
    await service.pulse.look_now([1])
    assert urgency("first") is Level.URGENT  # to be bound
    await asyncio.sleep(5)
    assert urgency("first") is Level.REST
    slurm.end(1, BaseState.TIMEOUT)
    await service.pulse.look_now([1])
    assert urgency("first") is Level.URGENT  # to be evicted
