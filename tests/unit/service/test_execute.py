"""What becomes of each action: the unit's memory, the pod's condition, the Event, the next look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from scheduler.core.actions import (
    Bind,
    Cancel,
    DropJob,
    Evict,
    Exclude,
    Inspect,
    Readmit,
    Reject,
    Submit,
    Tell,
)
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import InDoubt, NoJob, PodStage
from scheduler.core.intervals import UNTOLD_SECONDS
from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.core.owner_tag import Owner, OwnerTag, read_tag
from scheduler.core.refused_request import NEVER
from scheduler.core.slot_choice import Seat
from scheduler.kube.errors import KubeInterrupted
from scheduler.state.units import Placeholder, Unit
from slurmapi import (
    BaseState,
    SlurmBusy,
    SlurmDenied,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmUnreachable,
)
from tests.unit.core.things import PROBLEMS, REQUEST, pod
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
ONE = (Seat(0, UID),)
WAITING = pod(PodStage.WAITING, uid=UID)
SUBMIT = Submit(REQUEST, ONE)


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube) -> AsyncIterator[Service]:
    service = Service(slurm, kube)
    kube.create(UID)
    task = asyncio.create_task(service.canceller.run())
    yield service
    task.cancel()


@pytest.fixture
def unit(service: Service) -> Unit:
    return service.units.add(Unit(UID, "ns", "train", seen_at=0.0))


# --- submit ---------------------------------------------------------------------------------------


async def test_submitted_job_is_told_later_and_recorded_in_the_same_write(
    service, slurm, kube, unit
):
    assert await service.executor.do(unit, SUBMIT) == UNTOLD_SECONDS
    assert unit.job is not None
    assert (kube.patches, service.recorder.reasons()) == ([], [])
    await service.executor.do(unit, Tell(WAITING, Reason.SLURM_PENDING, "it is pending"))
    assert len(kube.patches) == 1
    assert kube.pods[UID].metadata.annotations[JOB_ID] == str(unit.job.job_id)
    condition = kube.condition_of(UID)
    assert (condition.status, condition.reason) == ("False", "SlurmPending")
    assert service.recorder.reasons() == ["PlaceholderSubmitted"]
    assert service.acted("submit", "ok") == 1


async def test_submitted_job_is_named_tagged_and_shaped_for_its_pod(service, slurm, unit):
    await service.executor.do(unit, SUBMIT)
    job = slurm.submissions[unit.job.job_id]
    tag = read_tag(job.admin_comment)
    assert tag is not None
    assert (tag.owner, tag.uids, tag.unit, tag.node) == (OWNER, (UID,), "train", "")
    assert (job.name, job.nodes, job.cpus, job.singleton) == ("ns.train.01234567", 1, 4, True)
    assert job.external
    assert job.script is None


async def test_job_for_a_pod_that_runs_is_asked_for_on_its_node(service, slurm, kube, unit):
    unit.bindings.nodes[UID] = "n2"
    await service.executor.do(unit, Submit(REQUEST, ONE, nodes=("n2",)))
    job = slurm.submissions[unit.job.job_id]
    assert job.required_nodes == ("n2",)
    assert '"node":"n2"' in job.admin_comment
    assert kube.condition_of(UID) is None, "a pod that is bound does not wait"


async def test_replaced_job_ends_after_the_new_one_is_recorded(service, slurm, kube, unit):
    tag = OwnerTag(1, OWNER.cluster, OWNER.scheduler, "ns", "train", (UID,))
    old = slurm.add(admin_comment=tag.encode())
    service.units.set_job(unit, Placeholder(old))
    recorded: list[str] = []
    slurm.on_cancel = lambda _job: recorded.append(kube.pods[UID].metadata.annotations[JOB_ID])
    await service.executor.do(unit, Submit(REQUEST, ONE, nodes=("n1",), replaces=old))
    assert not slurm.live(old)
    assert recorded == [str(unit.job.job_id)]


OTHERS = {
    "a native one": "",
    "another pod's": tag_of(owner=OWNER, uids=("another-uid",)),
    "another cluster's": tag_of(owner=Owner("another", OWNER.scheduler), uids=(UID,)),
}


@pytest.mark.parametrize("comment", OTHERS.values(), ids=OTHERS)
async def test_job_of_others_that_got_the_id_is_not_ended_in_place_of_a_former_one(
    service, slurm, unit, comment
):
    """Whether it was replaced, or given back: what was known of that id is not read again."""
    other = slurm.add(admin_comment=comment)
    before = slurm.jobs[other]
    await service.executor.do(unit, Cancel(other, "it was given back"))
    await service.executor.do(unit, Submit(REQUEST, ONE, nodes=("n1",), replaces=other))
    assert slurm.jobs[other] == before
    assert slurm.calls["cancel"] == 0


async def test_former_job_that_cannot_be_ended_now_is_left_to_a_census(service, slurm, unit):
    old = slurm.add(admin_comment=tag_of(owner=OWNER, uids=(UID,)))
    slurm.fail["job"].append(SlurmUnreachable("connection refused"))
    with pytest.raises(SlurmUnreachable):
        await service.executor.do(unit, Cancel(old, "it was given back"))
    assert unit.given_back == {old}


async def test_lost_answer_leaves_the_unit_in_doubt_and_asks_for_a_census(service, slurm, unit):
    slurm.fail["submit"].append(SlurmInterrupted("cut"))
    seconds = await service.executor.do(unit, SUBMIT)
    assert unit.job_facts() == InDoubt()
    assert seconds is not None
    assert service.acted("submit", "interrupted") == 1


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (SlurmUnreachable("connection refused"), "unreachable"),
        (SlurmBusy("try later", retry_after=40.0, status=429), "busy"),
        (SlurmDenied("token expired", status=511), "denied"),
    ],
)
async def test_slurm_that_cannot_be_asked_is_told_and_tried_soon(
    service, slurm, kube, unit, error, outcome
):
    slurm.fail["submit"].append(error)
    seconds = await service.executor.do(unit, SUBMIT)
    assert unit.job_facts() == NoJob()
    assert max(0.5, error.retry_after or 0.0) <= seconds <= 42.0
    assert kube.condition_of(UID).reason == "SlurmUnavailable"
    assert str(error) in kube.condition_of(UID).message
    assert service.recorder.reasons() == ["SlurmUnavailable"]
    assert service.acted("submit", outcome) == 1


@pytest.mark.parametrize(
    "error",
    [
        SlurmInvalid("Invalid partition name specified", error_number=2000, status=422),
        SlurmDenied("Access/permission denied", error_number=2002, status=500),
    ],
)
async def test_refusal_is_an_event_and_is_tried_again_late(service, slurm, kube, unit, error):
    slurm.fail["submit"].append(error)
    seconds = await service.executor.do(unit, SUBMIT)
    assert unit.job_facts() == NoJob()
    assert seconds >= 20
    assert service.recorder.reasons() == ["SlurmRejected"]
    assert kube.condition_of(UID).reason == "SlurmRejected"
    assert error.description in kube.condition_of(UID).message


async def test_setbacks_space_out_submits_up_to_a_bound(service, slurm, unit):
    pauses = []
    for _ in range(8):
        slurm.fail["submit"].append(SlurmInvalid("no", error_number=2000))
        await service.executor.do(unit, SUBMIT)
        pauses.append(unit.refusals.submit.until - asyncio.get_running_loop().time())
    assert pauses[0] <= 30
    assert 225 <= pauses[-1] <= 300
    assert max(pauses) <= 300


async def test_refused_pod_that_runs_is_not_told_that_it_waits(service, slurm, kube, unit):
    unit.bindings.nodes[UID] = "n1"
    slurm.fail["submit"].append(SlurmInvalid("no", error_number=2000))
    await service.executor.do(unit, Submit(REQUEST, ONE, nodes=("n1",)))
    assert kube.condition_of(UID) is None


# --- bind -----------------------------------------------------------------------------------------


async def test_bound_pod_bears_job_and_node(service, kube, unit):
    assert await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1")) is None
    assert unit.bindings.nodes == {UID: "n1"}
    annotations = kube.pods[UID].metadata.annotations
    assert (annotations[JOB_ID], annotations[JOB_NODES]) == ("4711", "s1")
    assert service.recorder.reasons() == ["Scheduled"]


async def test_pod_bound_by_another_hand_is_seen_again_at_once(service, kube, unit):
    kube.create("other", name="other", node="n2")
    other = service.units.add(Unit("other", "ns", "other", seen_at=0.0))
    action = Bind(pod(PodStage.WAITING, uid="other"), "s1", 4711, "n1")
    assert await service.executor.do(other, action) == 0.0
    assert other.bindings.nodes == {"other": "n2"}
    assert service.recorder.reasons() == []


async def test_pod_that_is_gone_is_not_bound(service, kube, unit):
    kube.delete(UID)
    assert await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1")) == 1.0
    assert unit.bindings.nodes == {}


async def test_failed_binding_is_raised_and_not_remembered(service, kube, unit):
    kube.fail["bind"].append(KubeInterrupted("cut"))
    with pytest.raises(KubeInterrupted):
        await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1"))
    assert unit.bindings.nodes == {}


async def test_binding_whose_answer_and_look_were_lost_is_read_before_anything_is_written_again(
    service, kube, unit
):
    kube.lose_next_binding = True
    with pytest.raises(KubeInterrupted):
        await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1"))
    kube.fail["bind"].append(KubeInterrupted("it was written again"))
    assert await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1")) is None
    assert unit.bindings.nodes == {UID: "n1"}
    assert service.recorder.reasons() == ["Scheduled"]


async def test_binding_that_never_came_is_sent_again(service, kube, unit):
    kube.fail["bind"].append(KubeInterrupted("cut"))
    with pytest.raises(KubeInterrupted):
        await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1"))
    assert await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1")) is None
    assert kube.bindings == [(UID, "n1")]


async def test_binding_of_before_that_another_hand_has_overtaken_is_seen(service, kube, unit):
    kube.create("other", name="other", node="n2")
    other = service.units.add(Unit("other", "ns", "other", seen_at=0.0))
    service.units.binding["other"] = "n1"
    kube.fail["bind"].append(KubeInterrupted("it was written again"))
    named = msgspec.structs.replace(pod(PodStage.WAITING, uid="other"), name="other")
    assert await service.executor.do(other, Bind(named, "s1", 4711, "n1")) == 0.0
    assert other.bindings.nodes == {"other": "n2"}


async def test_binding_of_before_is_no_matter_once_its_pod_is_gone(service, kube, unit):
    service.units.binding[UID] = "n1"
    kube.fail["bind"].append(KubeInterrupted("it was written again"))
    kube.delete(UID)
    assert await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1")) == 1.0
    assert UID not in service.units.binding


async def test_node_of_a_binding_under_way_is_known_by_its_kubernetes_name(service, kube, unit):
    seen = []
    kube.on_bind = lambda uid, _node: seen.append(service.units.binding[uid])
    await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1"))
    assert seen == ["n1"]


async def test_both_names_of_a_node_are_told_where_they_differ(service, unit):
    await service.executor.do(unit, Bind(WAITING, "s1", 4711, "n1"))
    assert service.recorder.events[-1].message.endswith("to n1 (Slurm job 4711 on node s1)")


# --- nodes that are left out ----------------------------------------------------------------------


async def test_excluded_node_is_left_out_of_the_next_job_and_told(service, slurm, unit):
    await service.executor.do(unit, Exclude("n1", "it is cordoned"))
    assert unit.asked.exclusions.active(0.0) == {"n1": "it is cordoned"}
    request = msgspec.structs.replace(REQUEST, excluded_nodes=("n9",))
    action = Submit(request, ONE, excluded=(("n1", "it is cordoned"),))
    await service.executor.do(unit, action)
    assert slurm.submissions[1].excluded_nodes == ("n9", "n1")
    assert "excluded nodes: n1 (it is cordoned)" in service.recorder.events[-1].message


async def test_exclusions_are_lifted_when_slurm_refuses_what_they_leave(service, slurm, unit):
    await service.executor.do(unit, Exclude("n1", "it is cordoned"))
    slurm.fail["submit"].append(SlurmInvalid("not available", error_number=2014, status=422))
    seconds = await service.executor.do(unit, Submit(REQUEST, ONE, excluded=(("n1", "cordoned"),)))
    assert unit.asked.exclusions.active(1.0) == {}
    assert seconds is not None
    assert seconds > 20
    assert "excluded nodes: n1 (cordoned)" in service.recorder.events[-1].message


async def test_job_that_waits_is_told_of_other_exclusions(service, slurm, unit):
    await service.executor.do(unit, SUBMIT)
    await service.executor.do(unit, Readmit(1, ("n1",)))
    assert slurm.jobs[1].excluded_nodes == ("n1",)


async def test_exclusions_that_were_written_are_not_written_again(service, slurm, unit):
    await service.executor.do(unit, SUBMIT)
    await service.executor.do(unit, Inspect(1))
    await service.executor.do(unit, Readmit(1, ("n1",)))
    assert unit.job.record.excluded_nodes == ("n1",)


async def test_refused_update_of_exclusions_is_counted_and_harms_nothing(service, slurm, unit):
    await service.executor.do(unit, SUBMIT)
    slurm.fail["update"].append(SlurmInvalid("no", error_number=2014, status=422))
    await service.executor.do(unit, Readmit(1, ("n1",)))
    assert service.acted("readmit", "refused") == 1
    assert slurm.jobs[1].excluded_nodes == ()


async def test_refused_exclusions_are_told_once_for_each_message_and_spaced_out(
    service, slurm, unit
):
    await service.executor.do(unit, SUBMIT)
    pauses = []
    for _ in range(5):
        slurm.fail["update"].append(SlurmInvalid("no", error_number=2014, status=422))
        await service.executor.do(unit, Readmit(1, ("n1",)))
        pauses.append(round(unit.refusals.readmit.until - asyncio.get_running_loop().time()))
    assert pauses == [30, 60, 120, 240, 300]
    assert service.recorder.reasons().count("UpdateRefused") == 1
    await service.executor.do(unit, Readmit(1, ("n1",)))
    assert unit.refusals.readmit is NEVER


# --- end ------------------------------------------------------------------------------------------


async def test_cancelled_job_is_remembered_as_such(service, slurm, unit):
    unit.job = Placeholder(slurm.add(admin_comment=tag_of(owner=OWNER, uids=(UID,))))
    await service.executor.do(unit, Cancel(unit.job.job_id, "its pod is gone"))
    assert slurm.jobs[unit.job.job_id].state.base is BaseState.CANCELLED
    assert unit.job.cancelled_at is not None


async def test_cancel_that_failed_is_raised_and_tried_again(service, slurm, unit):
    unit.job = Placeholder(slurm.add(admin_comment=tag_of(owner=OWNER, uids=(UID,))))
    slurm.fail["cancel"].append(SlurmBusy("later", status=429))
    with pytest.raises(SlurmBusy):
        await service.executor.do(unit, Cancel(unit.job.job_id, "its pod is gone"))
    assert unit.job.cancelled_at is None


async def test_dropped_job_is_forgotten_and_the_next_submit_waits(service, unit):
    service.units.set_job(unit, Placeholder(7))
    await service.executor.do(unit, DropJob(7, "it was preempted"))
    assert unit.job_facts() == NoJob()
    assert service.units.job_ids() == []
    assert unit.refusals.submit.until > asyncio.get_running_loop().time()
    assert service.recorder.reasons() == ["PlaceholderLost"]


async def test_evicted_pod_is_told_why_first_and_deleted_once(service, kube, unit):
    kube.create(UID, name="bound", node="n1")
    evict = Evict(pod(PodStage.BOUND, uid=UID), Reason.PREEMPTED, "Slurm job 7 was preempted")
    first = await service.executor.do(unit, evict)
    second = await service.executor.do(unit, evict)
    assert kube.deleted == [UID]
    assert first == 10.0
    assert 0 < second <= 10.0
    ((uid, (condition,)),) = kube.patches
    assert (uid, condition.type, condition.reason) == (UID, "DisruptionTarget", "Preempted")
    assert service.recorder.reasons() == ["Preempted"]
    value = service.metrics.registry.get_sample_value
    assert value("slurm_pod_scheduler_evictions_total", {"reason": "Preempted"}) == 1


async def test_pod_that_is_gone_is_not_evicted(service, kube, unit):
    evict = Evict(pod(PodStage.BOUND, uid="gone"), Reason.PREEMPTED, "why")
    assert await service.executor.do(unit, evict) == 1.0
    assert kube.deleted == []
    assert service.recorder.reasons() == []


# --- tell -----------------------------------------------------------------------------------------


async def test_rejection_is_told_once_with_all_problems(service, kube, unit):
    for _ in range(3):
        await service.executor.do(unit, Reject(WAITING, PROBLEMS))
    assert service.recorder.reasons() == ["SchedulingFailed"]
    assert len(kube.patches) == 1
    assert PROBLEMS[0].text in kube.condition_of(UID).message
    assert "recreate" in kube.condition_of(UID).message


async def test_second_mistake_soon_after_the_first_is_told_once_and_in_time(service, kube, unit):
    other = (msgspec.structs.replace(PROBLEMS[0], expected="another thing"),)
    await service.executor.do(unit, Reject(WAITING, PROBLEMS))
    await asyncio.sleep(3)
    again = [await service.executor.do(unit, Reject(WAITING, other)) for _ in range(3)]
    assert again == [pytest.approx(7.0, abs=0.1)] * 3
    assert len(kube.patches) == 1
    await asyncio.sleep(8)
    assert await service.executor.do(unit, Reject(WAITING, other)) is None
    assert "another thing" in kube.condition_of(UID).message
    assert service.recorder.reasons() == ["SchedulingFailed"] * 2
    assert service.acted("reject", "ok") == 2


async def test_what_was_told_is_not_told_again(service, kube, unit):
    for _ in range(5):
        await service.executor.do(unit, Tell(WAITING, Reason.SLURM_PENDING, "why"))
        await asyncio.sleep(60)
    assert len(kube.patches) == 1


async def test_wording_that_changes_all_the_time_is_written_now_and_then(service, kube, unit):
    for number in range(100):
        await service.executor.do(unit, Tell(WAITING, Reason.SLURM_PENDING, f"priority {number}"))
        await asyncio.sleep(1)
    assert 8 <= len(kube.patches) <= 12


async def test_new_cause_is_an_event_and_new_wording_is_not(service, unit):
    for cause, message in (("Priority", "1"), ("Priority", "2"), ("Resources", "3"), ("", "4")):
        await service.executor.do(unit, Tell(WAITING, Reason.SLURM_PENDING, message, cause))
    events = [(event.type, event.message) for event in service.recorder.events]
    assert events == [("Normal", "1"), ("Normal", "3")]


async def test_unfit_node_is_one_event_however_long_it_lasts(service, unit):
    for number in range(5):
        await service.executor.do(unit, Tell(WAITING, Reason.NODE_UNAVAILABLE, f"{number}"))
        await asyncio.sleep(10)
    assert service.recorder.reasons() == ["NodeUnavailable"]
    assert unit.bindings.unfit_since is not None
