"""What no facts, however odd, may lead to. The numbers are those of the invariants in the design:
I1 one placeholder, I2 bind what is held, I5 cancel last, I6 evict on evidence, I8 ours only.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from annotations import JobRequest
from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    DropJob,
    Evict,
    Forget,
    Hurry,
    Inspect,
    NoteEnd,
    Record,
    Reject,
    Submit,
    Tell,
    Update,
    Weigh,
)
from scheduler.core.decide import decide
from scheduler.core.evidence import Evidence
from scheduler.core.facts import (
    InDoubt,
    JobFacts,
    NoJob,
    PodStage,
    Tracked,
    UnitFacts,
    Vanished,
)
from scheduler.core.intervals import FRESH_SECONDS, SOON_SECONDS
from scheduler.core.node_suitability import Place
from scheduler.core.owner_tag import read_tag
from scheduler.core.tagged import TaggedJob
from scheduler.core.tenure import FIRST_TRIES, MOST_TRIES
from slurmapi.model import BaseState
from tests.unit.core.things import (
    JOB,
    KEY,
    NOW,
    OURS,
    PROBLEMS,
    REQUEST,
    TAGS,
    allocated_units,
    facts,
    pod,
    record,
    state,
    tracked,
    unit_facts,
)

A = TypeVar("A")
EXAMPLES = settings(max_examples=150)
RUNS = {PodStage.BOUND, PodStage.DEPARTING}
WANTS = {PodStage.GATED, PodStage.WAITING}


def chosen(kind: type[A], unit: UnitFacts) -> list[A]:
    return [action for action in decide(unit, NOW) if isinstance(action, kind)]


def proven(unit: UnitFacts) -> TaggedJob | None:
    """The record of a job that is ours beyond doubt."""
    if not isinstance(unit.job, Tracked) or unit.job.record is None:
        return None
    found = read_tag(unit.job.record.admin_comment)
    ours = found is not None and found.owner == OURS and found.key == unit.key
    return unit.job.record if ours else None


def of_pod(unit: UnitFacts, uid: str) -> TaggedJob | None:
    """The record of a job that has a place for this pod beyond doubt."""
    if not isinstance(unit.job, Tracked) or unit.job.record is None:
        return None
    found = read_tag(unit.job.record.admin_comment)
    seats = found is not None and found.owner == OURS and uid in found.uids
    return unit.job.record if seats else None


@given(unit_facts() | allocated_units())
@EXAMPLES
def test_bind_rests_on_a_fresh_record_of_our_own_running_job(unit: UnitFacts) -> None:  # I2
    for bind in chosen(Bind, unit):
        held = proven(unit)
        assert isinstance(unit.job, Tracked)
        assert held is not None
        assert held.state.base is BaseState.RUNNING
        assert not held.state.configuring
        assert NOW - unit.job.record_at <= FRESH_SECONDS
        assert bind.job_id == unit.job.job_id
        assert bind.node in held.nodes
        assert unit.nodes[bind.node] == Place(bind.target)
        assert bind.target


@given(unit_facts() | allocated_units())
@EXAMPLES
def test_no_two_pods_of_a_unit_are_put_on_one_slot(unit: UnitFacts) -> None:  # I2
    binds = [bind.node for bind in chosen(Bind, unit)]
    running = {pod.node for pod in unit.pods if pod.stage in RUNS}
    assert len(set(binds)) == len(binds)
    assert running.isdisjoint(binds)


@given(unit_facts() | allocated_units())
@EXAMPLES
def test_no_pod_starts_before_all_are_there_unless_one_was_on_a_node(unit: UnitFacts) -> None:
    begun = {pod.stage for pod in unit.pods} & {*RUNS, PodStage.FINISHED}
    if not begun and unit.missing and not any(it.placed for it in unit.missing):
        assert not chosen(Bind, unit)
        assert not chosen(Submit, unit)


@given(unit_facts() | allocated_units())
@EXAMPLES
def test_only_a_waiting_pod_is_bound_and_once(unit: UnitFacts) -> None:  # I3
    binds = chosen(Bind, unit)
    assert all(bind.pod.stage is PodStage.WAITING for bind in binds)
    assert len({bind.pod.uid for bind in binds}) == len(binds)
    if binds:
        assert not chosen(Cancel, unit)
        assert not chosen(DropJob, unit)


@given(unit_facts() | allocated_units())
@EXAMPLES
def test_placeholder_is_not_cancelled_while_a_pod_runs_on_it(unit: UnitFacts) -> None:  # I5
    if chosen(Cancel, unit):
        assert not [pod for pod in unit.pods if pod.stage in RUNS]
        assert all(it.lingers_until <= NOW for it in unit.missing)


@given(unit_facts())
@EXAMPLES
def test_job_that_no_pod_needs_ends_only_after_those_that_nobody_sees_were_read(
    unit: UnitFacts,
) -> None:  # I5
    if any(pod.stage in WANTS for pod in unit.pods):
        return
    for cancel in chosen(Cancel, unit):
        assert cancel.unseen == tuple(it.uid for it in unit.missing)


@given(unit_facts() | allocated_units())
@EXAMPLES
def test_pod_that_waits_beside_one_that_runs_says_why(unit: UnitFacts) -> None:  # I9
    if not unit.any_runs or unit.refused_bind is not None:
        return  # the condition of a refused bind is written when it is refused
    actions = decide(unit, NOW)
    served = {it.pod.uid for it in actions if isinstance(it, Tell | Bind)}
    waiting = {it.uid for it in unit.pods if it.stage is PodStage.WAITING}
    soon = min((it.seconds for it in actions if isinstance(it, Again)), default=SOON_SECONDS + 1)
    looks = any(isinstance(it, Submit | Weigh | Inspect) for it in actions)
    assert waiting <= served or soon <= SOON_SECONDS or looks


@given(unit_facts())
@EXAMPLES
def test_replaced_job_does_not_hold_the_node_of_a_pod_that_may_run(unit: UnitFacts) -> None:  # I5
    running = {pod.node for pod in unit.pods if pod.stage in RUNS}
    for submit in chosen(Submit, unit):
        held = proven(unit)
        if submit.replaces is not None:
            assert held is not None
            known = "" not in running and running.isdisjoint(held.nodes)
            gone = all(it.lingers_until <= NOW for it in unit.missing)
            assert held.state.base is BaseState.PENDING or (known and gone)


@given(unit_facts())
@EXAMPLES
def test_eviction_has_a_record_of_our_own_job_as_evidence(unit: UnitFacts) -> None:  # I6
    for evict in chosen(Evict, unit):
        held = of_pod(unit, evict.pod.uid) or proven(unit)
        gone = isinstance(unit.job, NoJob) or unit.job == Vanished(JOB, confirmed=True)
        if evict.evidence is Evidence.ABSENCE:
            foreign = isinstance(unit.job, Tracked) and unit.job.record is not None
            assert gone or foreign
            assert unit.tenure.tries >= MOST_TRIES or unit.tenure.is_over(unit.epoch) or held
            continue
        if evict.evidence is Evidence.TAKEN:
            assert unit.tenure.node is not None
            assert gone or isinstance(unit.job, Tracked)
            if isinstance(unit.job, Tracked):
                assert unit.job.record_at > unit.tenure.node_at, "its own job may hold the place"
            if held is not None:
                assert held.state.base is not BaseState.RUNNING or evict.pod.node not in held.nodes
            continue
        assert held is not None
        running = held.state.base is BaseState.RUNNING
        tag = read_tag(held.admin_comment)
        requeued = held.restart_count > (tag.restarts if tag else 0) and not held.state.ended
        warned = running and held.preempt_time is not None
        suspended = held.state.base is BaseState.SUSPENDED and unit.evict_suspended
        assert held.state.ended or requeued or warned or suspended
        assert evict.grace_seconds is None or 0 < evict.grace_seconds < evict.pod.grace_seconds
        assert evict.pod.stage in {PodStage.BOUND, PodStage.WAITING}
        assert evict.pod.placed_by_us or evict.pod.stage is PodStage.WAITING


@given(unit_facts(), st.sampled_from(BaseState))
@EXAMPLES
def test_grace_is_only_ever_shortened_and_on_evidence(unit: UnitFacts, base: BaseState) -> None:
    """I6 for a pod that is being deleted already."""
    leaving = tuple(replace(it, stage=PodStage.DEPARTING) for it in unit.pods)
    for case in (unit, replace(unit, pods=leaving, job=tracked(record(base)))):
        for hurried in chosen(Hurry, case):
            held = of_pod(case, hurried.pod.uid) or proven(case)
            assert held is not None
            assert held.state.base is not BaseState.RUNNING or held.preempt_time is not None
            assert hurried.pod.stage is PodStage.DEPARTING
            assert hurried.pod.placed_by_us
            assert 1 <= hurried.grace_seconds < (hurried.pod.deletion_grace_seconds or 0)


@given(unit_facts())
@EXAMPLES
def test_only_a_job_proven_to_be_ours_is_ended(unit: UnitFacts) -> None:  # I8
    ended = [cancel.job_id for cancel in chosen(Cancel, unit)]
    ended += [it.replaces for it in chosen(Submit, unit) if it.replaces is not None]
    for job_id in ended:
        assert proven(unit) is not None
        assert job_id == JOB


@given(unit_facts())
@EXAMPLES
def test_live_job_of_other_pods_too_is_left_alone_by_a_single_one(unit: UnitFacts) -> None:  # I8
    held = next((it for pod in unit.pods if (it := of_pod(unit, pod.uid))), None)
    if held is None or held.state.ended or proven(unit) is not None:
        return
    allowed = Tell | Inspect | Again | Forget
    assert all(isinstance(it, allowed) for it in decide(unit, NOW))


@given(unit_facts())
@EXAMPLES
def test_job_is_submitted_only_where_none_can_be(unit: UnitFacts) -> None:  # I1
    submits = chosen(Submit, unit)
    assert len(submits) <= 1
    for submit in submits:
        assert isinstance(unit.request, JobRequest)
        assert submit.request is unit.request
        assert unit.bound_by_us or not submit.first
        assert submit.nodes or not submit.first
        assert unit.submit_at <= NOW
        assert unit.held_until <= NOW or unit.any_runs  # what runs already is asked for anew
        match unit.job:
            case NoJob() | Vanished(confirmed=True):
                assert submit.replaces is None
            case Tracked(job_id=job_id, record=looked):
                assert looked is not None
                live = proven(unit) and not looked.state.ended
                assert submit.replaces == (job_id if live else None)
            case InDoubt() | Vanished():
                pytest.fail("there may be a job already")


@given(unit_facts())
@EXAMPLES
def test_job_for_pods_that_run_is_for_the_nodes_of_all_of_them(unit: UnitFacts) -> None:  # I12
    running = {pod.node for pod in unit.pods if pod.stage in RUNS}
    for submit in chosen(Submit, unit):
        assert set(submit.nodes) == running
        assert len(set(submit.nodes)) == len(submit.nodes)


@given(unit_facts())
@EXAMPLES
def test_job_in_the_place_of_a_lost_one_gets_no_more_time_and_few_tries(unit: UnitFacts) -> None:
    for submit in chosen(Submit, unit):
        if not submit.nodes:
            continue
        assert submit.tries <= MOST_TRIES
        assert not submit.first or (unit.bound_by_us and submit.tries <= FIRST_TRIES)
        if unit.tenure.until is not None:
            assert submit.minutes is not None
            assert unit.epoch + 60 * submit.minutes < unit.tenure.until + 60


@given(unit_facts())
@EXAMPLES
def test_unit_with_a_pod_that_may_run_is_not_forgotten(unit: UnitFacts) -> None:
    if chosen(Forget, unit):
        over = {PodStage.WITHDRAWN, PodStage.FINISHED}
        assert all(pod.stage in over for pod in unit.pods)


@given(unit_facts())
@EXAMPLES
def test_every_answer_goes_on_or_is_final(unit: UnitFacts) -> None:
    actions = decide(unit, NOW)
    assert any(isinstance(action, Again | Forget | Reject) for action in actions)
    assert all(action.seconds >= 0 for action in actions if isinstance(action, Again))


@given(unit_facts(), st.sampled_from([NOW - 1, NOW + 1]))
@EXAMPLES
def test_new_job_is_written_on_its_pod_in_time(unit: UnitFacts, tell_at: float) -> None:  # I9
    unit = replace(
        unit, pods=(pod(PodStage.WAITING),), unjudged=False, unrecorded=True, tell_at=tell_at
    )
    if not isinstance(unit.job, Tracked) or unit.job.state is None or unit.job.state.ended:
        return
    if of_pod(unit, KEY) and not proven(unit):
        return  # the job of a group that is not known here
    actions = decide(unit, NOW)
    if any(isinstance(it, Bind | DropJob | Evict) for it in actions):
        return  # it does not wait for this job any longer
    if tell_at <= NOW:
        assert any(isinstance(it, Tell | Record | Reject) for it in actions)
    else:
        assert min(again.seconds for again in chosen(Again, unit)) <= SOON_SECONDS


@given(unit_facts())
@EXAMPLES
def test_gated_pod_is_left_alone(unit: UnitFacts) -> None:
    touched: list[Bind | Evict | Reject | Tell] = [
        *chosen(Bind, unit),
        *chosen(Evict, unit),
        *chosen(Reject, unit),
        *chosen(Tell, unit),
    ]
    assert all(action.pod.stage is not PodStage.GATED for action in touched)


@given(unit_facts())
@EXAMPLES
def test_only_the_pending_job_of_a_pod_that_waits_is_updated(unit: UnitFacts) -> None:  # I8
    for update in chosen(Update, unit):
        held = proven(unit)
        assert held is not None
        assert isinstance(unit.job, Tracked)
        assert unit.job.state is not None
        assert unit.job.state.base is BaseState.PENDING
        assert any(pod.stage is PodStage.WAITING for pod in unit.pods)
        assert not [pod for pod in unit.pods if pod.stage in RUNS]
        assert unit.update_at <= NOW
        assert update.request is unit.request
        assert update.changed


@given(unit_facts())
@EXAMPLES
def test_end_is_noted_only_on_a_pod_that_runs_on_its_own_job(unit: UnitFacts) -> None:
    for note in chosen(NoteEnd, unit):
        held = proven(unit)
        assert held is not None
        assert held.state.base is BaseState.RUNNING
        assert note.pod.stage is PodStage.BOUND
        assert note.pod.ends_at != note.ends_at


def jobs() -> Iterator[JobFacts]:
    """Every kind of placeholder: each pulse with each record, of ours and of others."""
    yield from (NoJob(), InDoubt(), Vanished(JOB, confirmed=False), Vanished(JOB, confirmed=True))
    pulses = [None, *map(state, BaseState), state(BaseState.RUNNING, "CONFIGURING")]
    records = [
        None,
        *(record(base, admin_comment=tag) for base in BaseState for tag in TAGS),
        record(BaseState.RUNNING, "CONFIGURING"),
        record(BaseState.PENDING, nodes=(), restart_count=1),
        record(nodes=("n1", "n2")),
    ]
    for pulse, looked, at in itertools.product(pulses, records, (NOW, NOW - 1000)):
        yield tracked(looked, at=at, state=pulse)


def test_every_stage_has_an_answer_to_every_job() -> None:
    stages = [(), *((stage,) for stage in PodStage)]
    known = list(jobs())
    for stage, job, request in itertools.product(stages, known, (REQUEST, PROBLEMS)):
        pods = [pod(it) for it in stage]
        actions: tuple[Action, ...] = decide(facts(*pods, job=job, request=request), NOW)
        assert actions
