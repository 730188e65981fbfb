"""What a PodGroup says of its gang, what that costs, and that it holds nothing up."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from scheduler.core.event_reasons import Reason
from scheduler.core.gang_objects import (
    GroupObject,
    ManagedFields,
    Manager,
    PodGroup,
)
from scheduler.core.group_said import MOST_WORD_TRIES
from scheduler.kube.errors import Conflict, Forbidden, Invalid, KubeInterrupted, KubeRefused
from scheduler.kube.wire import PodStatus
from slurmapi import BaseState
from tests.unit.service.test_gang_patience import META, OF_KUBERNETES, OF_PLUGINS, in_group
from tests.unit.service.test_gangs import job, of_job, runs
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
RUNNING = PodStatus(phase="Running")


def said(kube: TinyKube) -> list[Any]:
    """The phases, or status, reason and message of the conditions, in the order of writing."""
    found: list[Any] = []
    for status in kube.statuses:
        conditions = status.get("conditions")
        if not isinstance(conditions, list):
            found.append(status["phase"])
            continue
        (one,) = conditions
        assert one["type"] == "PodGroupScheduled"
        found.append((one["status"], one["reason"], one["message"]))
    return found


async def waits(kube: TinyKube, service: Service, group: GroupObject) -> None:
    """The two pods of a PodGroup wait for Slurm."""
    kube.groups["ring"] = group
    service.start()
    for number in (0, 1):
        in_group(kube, number, own=isinstance(group, PodGroup))
    await asyncio.sleep(5)


async def test_condition_says_why_the_gang_waits_and_that_it_is_placed(slurm, kube, service):
    await waits(kube, service, OF_KUBERNETES)
    ((status, reason, message),) = said(kube)
    assert (status, reason) == ("False", "Unschedulable")
    assert message == kube.condition_of("uid-0").message
    await runs(slurm, 1)
    assert said(kube)[1:] == [
        ("True", "Scheduled", "2 pods have a Node, which Slurm job 1 holds for them")
    ]
    # True is never taken back, as kube-scheduler does not: not even if all begins anew.
    slurm.end(1, BaseState.PREEMPTED)
    await asyncio.sleep(30)
    for number in (2, 3):
        in_group(kube, number, own=True)
    await asyncio.sleep(30)
    assert len(said(kube)) == 2


async def test_phase_follows_the_gang_to_its_end(slurm, kube, service):
    await waits(kube, service, OF_PLUGINS)
    await runs(slurm, 1)
    assert said(kube) == ["Pending", "Scheduling"]
    for uid in ("uid-0", "uid-1"):
        kube.report(uid, RUNNING)
    await asyncio.sleep(20)
    assert said(kube)[2:] == ["Running"]
    for uid in ("uid-0", "uid-1"):
        kube.end_containers(uid)
    await asyncio.sleep(90)
    assert said(kube)[3:] == ["Finished"]
    assert not slurm.live(1)
    # Each word costs a read and a write; the object was read once to know the gang's size.
    assert kube.asked["patch_group"] == 4
    assert kube.asked["get_group"] <= 4 + 3


async def test_gang_that_starts_at_once_does_not_say_first_that_it_waits(slurm, kube, service):
    kube.groups["ring"] = OF_PLUGINS
    service.start()
    for number in (0, 1):
        in_group(kube, number)
    await asyncio.sleep(0.5)
    await runs(slurm, 1)
    assert said(kube) == ["Scheduling"]


async def test_reason_that_changes_all_the_time_is_written_ever_more_seldom(slurm, kube, service):
    await waits(kube, service, OF_KUBERNETES)
    for number in range(360):
        slurm.change(1, BaseState.PENDING, state_reason=("Resources", "Priority")[number % 2])
        await asyncio.sleep(10)
    assert 3 <= kube.asked["patch_group"] <= 11


@pytest.mark.parametrize("group", [OF_KUBERNETES, OF_PLUGINS])
async def test_what_somebody_else_has_written_is_left_alone(slurm, kube, service, group):
    if isinstance(group, PodGroup):
        fields: dict[str, Any] = {"f:conditions": {'k:{"type":"PodGroupScheduled"}': {}}}
    else:
        fields = {"f:phase": {}}
    others = (Manager("controller", ManagedFields(fields)),)
    meta = msgspec.structs.replace(META, managed_fields=others)
    await waits(kube, service, msgspec.structs.replace(group, metadata=meta))
    read = kube.asked["get_group"]
    await runs(slurm, 1)
    await asyncio.sleep(60)
    assert kube.statuses == []
    assert kube.asked["patch_group"] == 0
    assert kube.asked["get_group"] == read
    assert len(kube.bindings) == 2


@pytest.mark.parametrize(
    "error",
    [
        Forbidden(403, message="podgroups is forbidden"),
        Invalid(422, message="denied the request"),
        Conflict(409, message="the object has been modified"),
        KubeRefused(500, message="etcd"),
        KubeInterrupted("the answer was lost"),
    ],
    ids=["403", "422", "409", "500", "lost"],
)
async def test_word_that_fails_holds_nothing_up_and_costs_few_requests(slurm, kube, service, error):
    kube.fail["patch_group"].extend([error] * 100)
    await waits(kube, service, OF_KUBERNETES)
    await runs(slurm, 1)
    assert len(kube.bindings) == 2
    await asyncio.sleep(600)
    assert 2 <= kube.asked["patch_group"] <= 2 * MOST_WORD_TRIES
    slurm.end(1, BaseState.PREEMPTED)
    await asyncio.sleep(5)
    assert sorted(kube.deleted) == ["uid-0", "uid-1"]


async def test_refusal_is_told_once_on_one_pod(slurm, kube, service):
    kube.refuses["patch_group"] = "403 podgroups is forbidden"
    await waits(kube, service, OF_PLUGINS)
    await runs(slurm, 1)
    await asyncio.sleep(600)
    told = [it for it in service.recorder.events if it.reason == Reason.STATUS_REFUSED]
    assert len(told) == 1
    assert "PodGroup ring: 403 podgroups is forbidden" in told[0].message


async def test_write_that_hangs_holds_the_gang_for_seconds_at_most(slurm, kube, service):
    kube.seconds["ns", "patch_group"] = 3600.0
    await waits(kube, service, OF_KUBERNETES)
    await runs(slurm, 1)
    await asyncio.sleep(20)
    assert len(kube.bindings) == 2


async def test_next_process_says_what_the_former_one_could_not(slurm, kube):
    kube.fail["patch_group"].append(KubeInterrupted("lost"))
    first = Service(slurm, kube)
    await waits(kube, first, OF_KUBERNETES)
    await runs(slurm, 1)
    await first.kill()
    kube.groups["ring"] = OF_KUBERNETES  # as if nothing had been written
    kube.relist()
    before, reads = len(kube.statuses), kube.asked["get_group"]
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(30)
    assert [it[0] for it in said(kube)[before:]] == ["True"]
    assert kube.asked["get_group"] - reads <= 2
    second.unharmed()
    await second.kill()


async def test_next_process_writes_nothing_that_is_said_already(slurm, kube):
    first = Service(slurm, kube)
    await waits(kube, first, OF_PLUGINS)
    await runs(slurm, 1)
    await first.kill()
    kube.relist()
    before = kube.asked["patch_group"]
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(30)
    assert kube.asked["patch_group"] == before
    await second.kill()


async def test_pods_without_a_pod_group_cost_no_request(slurm, kube, service):
    kube.groups["train"] = job(2)
    service.start()
    for number in (0, 1):
        of_job(kube, number)
    kube.create("single", name="single")
    await asyncio.sleep(5)
    reads = kube.asked["get_group"]
    for job_id in tuple(slurm.submissions):
        await runs(slurm, job_id)
    await asyncio.sleep(60)
    assert kube.asked["patch_group"] == 0
    assert kube.asked["get_group"] == reads <= 1
