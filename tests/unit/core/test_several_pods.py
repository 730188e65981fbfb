"""One pod of a unit runs, and another waits: the job is kept, and the other says why it waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from scheduler.core.actions import Again, Bind, Tell
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import InDoubt, NoJob, PodStage, Vanished
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS
from scheduler.core.node_suitability import Unfit
from scheduler.core.refused_bind import KEPT_SECONDS, RefusedBind
from slurmapi.model import BaseState
from tests.unit.core.things import (
    IN_WAY,
    JOB,
    NOW,
    facts,
    places,
    pod,
    record,
    tracked,
)

SLOW: Final = Again(SLOW_LOOK_SECONDS)
SOON: Final = Again(SOON_SECONDS)
HALF_BOUND: Final = (
    pod(PodStage.BOUND, uid="uid-0"),
    pod(PodStage.WAITING, uid="uid-1"),
)


def test_job_of_a_half_bound_unit_is_kept_though_the_other_bind_is_refused_for_long():
    refused = RefusedBind(JOB, "a quota", since=NOW - 2 * KEPT_SECONDS, again_at=NOW + 5)
    unit = facts(*HALF_BOUND, job=tracked(record(nodes=("n1", "n2"))), refused_bind=refused)
    assert decide(unit, NOW) == (Again(5.0),)
    due = replace(unit, refused_bind=replace(refused, again_at=NOW))
    assert decide(due, NOW) == (Bind(HALF_BOUND[1], "n2", JOB, "kube-n2"), SLOW)


def test_waiting_pod_says_that_another_still_stops_on_a_node_of_its_own_unit():
    unit = facts(
        *HALF_BOUND,
        job=tracked(record(nodes=("n1", "n2"))),
        nodes={**places("n1"), **places("n2", unfit=Unfit("is full", occupied=True))},
        in_way=replace(IN_WAY, until=NOW),
    )
    tell, again = decide(unit, NOW)
    assert isinstance(tell, Tell)
    assert (tell.pod, again) == (HALF_BOUND[1], SOON)
    assert "pod old may still run" in tell.message


@pytest.mark.parametrize(
    ("job", "first", "words"),
    [
        (tracked(record(BaseState.SUSPENDED)), PodStage.DEPARTING, "Slurm job 4711 is SUSPENDED"),
        (tracked(record(BaseState.UNKNOWN)), PodStage.BOUND, "Slurm job 4711 is UNKNOWN"),
        (tracked(record(BaseState.TIMEOUT)), PodStage.BOUND, "Slurm job 4711 is TIMEOUT"),
        (InDoubt(), PodStage.BOUND, "The pod's Slurm job is being searched for"),
        (NoJob(), PodStage.DEPARTING, "No Slurm job is known for the pod"),
        (Vanished(JOB, confirmed=True), PodStage.DEPARTING, "Slurm no longer knows job 4711"),
    ],
)
def test_pod_that_waits_beside_one_that_runs_says_what_its_job_does(job, first, words):
    pods = (pod(first, uid="uid-0"), pod(PodStage.WAITING, uid="uid-1"))
    tells = [it for it in decide(facts(*pods, job=job), NOW) if isinstance(it, Tell)]
    assert [(it.pod, it.reason) for it in tells] == [(pods[1], Reason.SLURM_PENDING)]
    assert tells[0].message.startswith(words)
