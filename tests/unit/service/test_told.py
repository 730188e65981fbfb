"""The condition of a pod that waits: one reason where a site wants that, and never in a hurry."""

from __future__ import annotations

import asyncio

import pytest

from annotations import Problem
from scheduler.core.actions import NoteEnd, Reject, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodStage
from scheduler.state.member import Member, by_uid
from scheduler.state.units import Placeholder, Unit
from tests.unit.core.things import PROBLEMS, pod
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
WAITING = pod(PodStage.WAITING, uid=UID)


def tell(message: str, reason: Reason = Reason.SLURM_PENDING) -> Tell:
    return Tell(WAITING, reason, message)


def unit_of(service: Service) -> Unit:
    return service.units.add(Unit(UID, "ns", "train", seen_at=0.0))


def gang_of(service: Service, kube: TinyKube) -> Unit:
    """A unit of two pods, of which Slurm holds job 7."""
    kube.create("a", name="train-0")
    kube.create("b", name="train-1")
    pods = (Member("a", "train-0"), Member("b", "train-1"))
    unit = Unit("group", "ns", "train", seen_at=0.0, job=Placeholder(7), members=by_uid(pods))
    return service.units.add(unit)


@pytest.fixture
async def autoscaled(slurm: TinySlurm, kube: TinyKube) -> Service:
    kube.create(UID)
    return Service(slurm, kube, unschedulable_reason="Unschedulable")


@pytest.fixture
async def plain(slurm: TinySlurm, kube: TinyKube) -> Service:
    kube.create(UID)
    return Service(slurm, kube)


async def test_condition_bears_the_reason_that_the_site_wants(
    autoscaled: Service, kube: TinyKube
) -> None:
    await autoscaled.executor.do(unit_of(autoscaled), tell("why"))
    condition = kube.condition_of(UID)
    assert condition is not None
    assert (condition.reason, condition.message) == ("Unschedulable", "why")


async def test_each_pod_of_a_unit_says_why(plain: Service, kube: TinyKube) -> None:
    unit = gang_of(plain, kube)
    await plain.teller.tell_waiting(unit, Reason.SLURM_PENDING, "why")
    await plain.executor.do(
        unit, Tell(pod(PodStage.WAITING, uid="b"), Reason.NO_NODE_FITS, "other")
    )
    await plain.teller.tell_waiting(unit, Reason.SLURM_PENDING, "why")  # `a` says that already
    patched = [(uid, it.message) for uid, (it,) in kube.patches]
    assert patched == [("a", "why"), ("b", "why"), ("b", "other"), ("b", "why")]
    assert unit.names(7)
    assert [it.said.recorded for it in unit.pods] == [7, 7]
    assert unit.reason == Reason.SLURM_PENDING


async def test_end_is_noted_on_the_pod_that_it_concerns(plain: Service, kube: TinyKube) -> None:
    unit = gang_of(plain, kube)
    await plain.executor.do(unit, NoteEnd(pod(PodStage.BOUND, uid="b"), "2030-01-01T00:00:00Z"))
    assert [it.said.ends_at for it in unit.pods] == [None, "2030-01-01T00:00:00Z"]
    assert [uid for uid, _ in kube.patches] == ["b"]


async def test_events_keep_their_reasons_whatever_the_condition_bears(
    autoscaled: Service, kube: TinyKube
) -> None:
    unit = unit_of(autoscaled)
    for _ in range(2):
        await autoscaled.executor.do(unit, Reject(WAITING, PROBLEMS))
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.reason == "Unschedulable"
    assert autoscaled.recorder.reasons() == ["SchedulingFailed"]


async def test_another_reason_of_ours_is_told_at_once_under_the_same_word(
    autoscaled: Service, kube: TinyKube
) -> None:
    unit = unit_of(autoscaled)
    await autoscaled.executor.do(unit, tell("one"))
    await autoscaled.executor.do(unit, tell("another", Reason.SLURM_UNAVAILABLE))
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.message == "another"


async def test_new_wording_waits_for_its_time_and_is_then_told(
    plain: Service, kube: TinyKube
) -> None:
    unit = unit_of(plain)
    assert await plain.executor.do(unit, tell("priority 1")) is None
    early = await plain.executor.do(unit, tell("priority 2"))
    assert early is not None
    assert 9.0 < early <= 10.0
    assert len(kube.patches) == 1
    await asyncio.sleep(early)
    assert await plain.executor.do(unit, tell("priority 3")) is None
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.message == "priority 3"
    assert len(kube.patches) == 2


async def test_words_of_sunk_stand_first_among_several_problems(
    plain: Service, kube: TinyKube
) -> None:
    rule = "termination grace period must be less than Slurm KillWait - 5s"
    grace = Problem("spec.terminationGracePeriodSeconds", "30", "at most 24", rule)
    await plain.executor.do(unit_of(plain), Reject(WAITING, (*PROBLEMS, grace)))
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.message.startswith(rule)
    assert PROBLEMS[0].text in condition.message
