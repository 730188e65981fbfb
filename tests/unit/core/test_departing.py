"""A pod that is being deleted while Slurm has taken its node: its grace is shortened, once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from scheduler.core.actions import Action, Again, Hurry, Inspect
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import JobFacts, PodStage, Vanished
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS
from slurmapi.model import BaseState
from tests.unit.core.things import (
    ENDED,
    JOB,
    NOW,
    facts,
    pod,
    record,
    state,
    tag,
    tracked,
    warned,
)

LEAVING = pod(PodStage.DEPARTING, grace_seconds=20, deletion_grace_seconds=3600)
SLOW = Again(SLOW_LOOK_SECONDS)


def answer(job: JobFacts, *, leaving=LEAVING, **more) -> tuple[Action, ...]:
    return decide(facts(leaving, job=job, **more), NOW)


def given(job: JobFacts, **more) -> list[int]:
    return [it.grace_seconds for it in answer(job, **more) if isinstance(it, Hurry)]


@pytest.mark.parametrize("base", ENDED)
def test_pod_whose_job_has_ended_gets_its_own_grace(base):
    hurried, again = answer(tracked(record(base)))
    assert isinstance(hurried, Hurry)
    assert (hurried.grace_seconds, again) == (20, SLOW)
    assert str(JOB) in hurried.message


def test_own_grace_that_outlasts_kill_wait_is_cut_to_what_slurm_gives():
    ended = tracked(record(BaseState.CANCELLED))
    long = replace(LEAVING, grace_seconds=600)
    assert given(ended, leaving=long, longest_grace=24) == [24]
    assert given(ended, leaving=long, longest_grace=-1) == [1]
    assert given(ended, leaving=long) == [600], "the handover guard waits for any grace"


def test_grace_that_fits_is_left_as_it_is():
    ended = tracked(record(BaseState.CANCELLED))
    for seconds in (None, 0, 1, 20):
        fits = replace(LEAVING, deletion_grace_seconds=seconds)
        assert answer(ended, leaving=fits) == (SLOW,)


def test_pod_that_others_have_placed_keeps_the_grace_it_was_given():
    theirs = replace(LEAVING, placed_by_us=False)
    assert answer(tracked(record(BaseState.CANCELLED)), leaving=theirs) == (SLOW,)


def test_pod_that_slurm_warned_gets_what_is_left_of_the_grace_time():
    assert given(tracked(warned()), epoch=5013.0) == [7]
    shortened = replace(LEAVING, deletion_grace_seconds=7)
    assert given(tracked(warned()), leaving=shortened, epoch=5016.0) == []


def test_node_that_the_job_lost_otherwise_counts_too():
    suspended = tracked(record(BaseState.SUSPENDED))
    assert given(suspended) == [20]
    assert given(suspended, evict_suspended=False) == []
    requeued = record(BaseState.PENDING, nodes=(), restart_count=2, admin_comment=tag(restarts=1))
    (hurried, _) = answer(tracked(requeued))
    assert isinstance(hurried, Hurry)
    assert hurried.reason is Reason.REQUEUED


@pytest.mark.parametrize(
    "job",
    [
        tracked(record()),
        tracked(record(BaseState.UNKNOWN)),
        tracked(record(BaseState.CANCELLED, admin_comment=tag(uids=("another",)))),
        tracked(),
        Vanished(JOB, confirmed=True),
    ],
    ids=["running", "unknown", "another's", "never seen", "vanished"],
)
def test_without_evidence_nothing_is_shortened(job):
    assert answer(job) == (SLOW,)


def test_end_that_only_the_pulse_shows_is_looked_at_first():
    job = tracked(record(), state=state(BaseState.CANCELLED))
    assert answer(job) == (Inspect(JOB), Again(SOON_SECONDS))


def test_end_that_may_be_of_a_former_job_is_waited_with():
    job = replace(tracked(record(BaseState.CANCELLED)), settled=False)
    assert answer(job) == (Again(SOON_SECONDS),)
