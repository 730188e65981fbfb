"""The job of a group that this process does not know is left alone, and so are its pods."""

from __future__ import annotations

from typing import Final

import pytest

from scheduler.core.actions import Again, DropJob, Evict, Forget, Hurry, Inspect, Tell
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodStage
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS
from slurmapi.model import BaseState
from tests.unit.core.things import (
    ENDED,
    GANG,
    JOB,
    KEY,
    LIVE,
    NOW,
    PROBLEMS,
    facts,
    pod,
    record,
    state,
    tag,
    tracked,
)

SLOW: Final = Again(SLOW_LOOK_SECONDS)
GROUP: Final = tag(uids=(KEY, "uid-1"), key=GANG)


@pytest.mark.parametrize("base", LIVE)
@pytest.mark.parametrize("stage", [PodStage.BOUND, PodStage.DEPARTING, PodStage.GATED])
def test_pod_of_a_live_job_of_an_unknown_group_is_left_alone(base, stage):
    job = tracked(record(base, admin_comment=GROUP, nodes=("n2",)))
    assert decide(facts(pod(stage), job=job), NOW) == (SLOW,)


@pytest.mark.parametrize("problems", [False, True])
def test_pod_that_waits_for_a_job_of_an_unknown_group_says_so(problems):
    job = tracked(record(admin_comment=GROUP, nodes=("n1", "n2")))
    unit = facts(pod(PodStage.WAITING), job=job, **({"request": PROBLEMS} if problems else {}))
    tell, again = decide(unit, NOW)
    assert isinstance(tell, Tell)
    assert (tell.reason, again) == (Reason.SLURM_PENDING, SLOW)
    assert tell.message.startswith("Slurm job 4711 is RUNNING. It was submitted for a group")


@pytest.mark.parametrize("stage", [None, PodStage.FINISHED, PodStage.WITHDRAWN])
def test_job_of_an_unknown_group_outlives_its_pods(stage):
    pods = () if stage is None else (pod(stage),)
    job = tracked(record(admin_comment=GROUP))
    assert decide(facts(*pods, job=job), NOW) == (Forget(),)


def test_end_that_the_pulse_shows_is_looked_at():
    job = tracked(record(admin_comment=GROUP), state=state(BaseState.TIMEOUT))
    soon = (Inspect(JOB), Again(SOON_SECONDS))
    assert decide(facts(pod(PodStage.BOUND), job=job), NOW) == soon


@pytest.mark.parametrize("base", ENDED)
def test_end_of_a_groups_job_counts_for_a_pod_of_it_as_the_end_of_its_own_would(base):
    theirs, own = (tracked(record(base, admin_comment=it)) for it in (GROUP, tag()))
    for one in (pod(PodStage.BOUND), pod(PodStage.DEPARTING, deletion_grace_seconds=3600)):
        answers = [decide(facts(one, job=job), NOW) for job in (theirs, own)]
        assert answers[0] == answers[1]
        assert base is not BaseState.TIMEOUT or isinstance(answers[0][0], Evict | Hurry)


def test_pod_that_waits_gets_a_job_of_its_own_when_the_groups_has_ended():
    job = tracked(record(BaseState.CANCELLED, admin_comment=GROUP))
    drop, again = decide(facts(pod(PodStage.WAITING), job=job), NOW)
    assert isinstance(drop, DropJob)
    assert (drop.job_id, again) == (JOB, Again(0.0))


def test_end_of_a_groups_job_means_nothing_to_a_pod_that_it_does_not_name():
    stranger = tracked(record(BaseState.TIMEOUT, admin_comment=tag(uids=("x", "y"), key=GANG)))
    actions = decide(facts(pod(PodStage.BOUND), job=stranger), NOW)
    assert not any(isinstance(it, Evict | Hurry) for it in actions)
