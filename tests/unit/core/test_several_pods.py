"""One pod of a unit runs, and another waits: the job is kept, and the other says why it waits."""

from __future__ import annotations

from typing import Final

import pytest
from msgspec.structs import replace

from scheduler.core.actions import (
    Again,
    Bind,
    Cancel,
    DropJob,
    Evict,
    Hurry,
    Reject,
    Submit,
    Tell,
    Warn,
)
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import InDoubt, MissingPod, NoJob, PodStage, Vanished
from scheduler.core.intervals import LINGER_LOOK_SECONDS, SLOW_LOOK_SECONDS, SOON_SECONDS
from scheduler.core.node_suitability import Unfit
from scheduler.core.refused_bind import ALLOCATION_KEPT_SECONDS, RefusedBind
from slurmapi.model import BaseState
from tests.unit.core.things import (
    GANG,
    IN_WAY,
    JOB,
    NOW,
    PROBLEMS,
    TAINTED,
    facts,
    places,
    pod,
    record,
    tag,
    tracked,
    warned,
)

SLOW: Final = Again(SLOW_LOOK_SECONDS)
SOON: Final = Again(SOON_SECONDS)
HALF_BOUND: Final = (
    pod(PodStage.BOUND, uid="uid-0"),
    pod(PodStage.WAITING, uid="uid-1"),
)


def test_job_of_a_half_bound_unit_is_kept_though_the_other_bind_is_refused_for_long():
    refused = RefusedBind(JOB, "a quota", since=NOW - 2 * ALLOCATION_KEPT_SECONDS, again_at=NOW + 5)
    unit = facts(*HALF_BOUND, job=tracked(record(nodes=("n1", "n2"))), refused_bind=refused)
    tell, again = decide(unit, NOW)
    assert isinstance(tell, Tell)
    assert (tell.pod, again) == (HALF_BOUND[1], Again(5.0))
    assert "a quota" in tell.message
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


TWO: Final = tag(uids=("uid-1", "uid-2"), key=GANG)
ENDS: Final = {
    "ended": record(BaseState.TIMEOUT, admin_comment=TWO),
    "preempted soon": record(admin_comment=TWO, preempt_time=5000, end_time=5020),
    "suspended": record(BaseState.SUSPENDED, admin_comment=TWO),
    "requeued": record(BaseState.PENDING, admin_comment=TWO, restart_count=1),
}


@pytest.mark.parametrize("looked", ENDS.values(), ids=ENDS)
def test_end_of_a_job_is_the_end_of_the_pods_that_its_tag_names_and_of_no_other(looked):
    """A pod may come to the group, on a Node of its author's choice, and never get a place."""
    pods = tuple(pod(PodStage.BOUND, uid=f"uid-{number}") for number in range(3))
    actions = decide(facts(*pods, key=GANG, job=tracked(looked), epoch=5005.0), NOW)
    assert [it.pod.uid for it in actions if isinstance(it, Evict)] == ["uid-1", "uid-2"]
    alone = decide(facts(pods[0], key=GANG, job=tracked(looked), epoch=5005.0), NOW)
    assert alone == (SLOW,)


@pytest.mark.parametrize("looked", ENDS.values(), ids=ENDS)
def test_pod_that_leaves_is_hurried_only_by_the_end_of_a_job_that_names_it(looked):
    pods = tuple(
        pod(PodStage.DEPARTING, uid=f"uid-{number}", deletion_grace_seconds=3600)
        for number in range(3)
    )
    actions = decide(facts(*pods, key=GANG, job=tracked(looked), epoch=5005.0), NOW)
    assert [it.pod.uid for it in actions if isinstance(it, Hurry)] == ["uid-1", "uid-2"]


def test_pod_that_waits_is_not_evicted_for_a_job_that_had_no_place_for_it():
    pods = tuple(pod(PodStage.WAITING, uid=f"uid-{number}") for number in range(3))
    job = tracked(record(BaseState.CANCELLED, admin_comment=TWO))
    evicted = decide(facts(*pods, key=GANG, job=job), NOW)
    assert [it.pod.uid for it in evicted if isinstance(it, Evict)] == ["uid-1", "uid-2"]
    drop, again = decide(facts(pods[0], key=GANG, job=job), NOW)
    assert isinstance(drop, DropJob)
    assert again == Again(0.0)


THREE: Final = tag(uids=("uid-0", "uid-1", "uid-2"), key=GANG)


@pytest.mark.parametrize("stage", [PodStage.BOUND, PodStage.DEPARTING])
@pytest.mark.parametrize("node", ["n2", ""], ids=["in the job", "unknown"])
def test_job_is_not_replaced_for_one_pod_while_another_runs_in_it(stage, node):
    """slurmctld has lost its state, and started the job again, on nodes of which one is right."""
    pods = (pod(PodStage.BOUND, uid="uid-0", node="n9"), pod(stage, uid="uid-1", node=node))
    job = tracked(record(nodes=("n1", "n2"), admin_comment=THREE))
    warn, again = decide(facts(*pods, key=GANG, job=job), NOW)
    assert isinstance(warn, Warn)
    assert (warn.reason, again) == (Reason.PLACEHOLDER_LOST, SLOW)
    assert "does not hold the node of train:" in warn.message


def test_job_that_holds_the_node_of_no_pod_is_replaced():
    pods = tuple(pod(PodStage.BOUND, uid=f"uid-{at}", node=f"n{at + 8}") for at in range(2))
    job = tracked(record(nodes=("n1", "n2"), admin_comment=THREE))
    submit = decide(facts(*pods, key=GANG, job=job), NOW)[0]
    assert isinstance(submit, Submit)
    assert submit.replaces == JOB


ENDLESS: Final = record(nodes=("n3", "n1", "n2"), admin_comment=THREE)
LINGERS: Final = MissingPod(uid="uid-1", name="train-1", lingers_until=NOW + 5)


@pytest.mark.parametrize("stage", [PodStage.FINISHED, PodStage.WITHDRAWN])
def test_job_outlives_a_pod_that_has_vanished_though_another_has_ended(stage):
    unit = facts(pod(stage), missing=(LINGERS,), key=GANG, job=tracked(ENDLESS))
    assert decide(unit, NOW) == (Again(LINGER_LOOK_SECONDS),)
    cancel, again = decide(unit, NOW + 5)
    assert isinstance(cancel, Cancel)
    assert (cancel.unseen, again) == (("uid-1",), SOON)


@pytest.mark.parametrize(
    "more",
    [
        {"nodes": places("n1", "n2", unfit=TAINTED)},
        {
            "refused_bind": RefusedBind(
                JOB, "a quota", since=NOW - 2 * ALLOCATION_KEPT_SECONDS, again_at=NOW
            )
        },
    ],
    ids=["unfit", "refused"],
)
def test_job_is_not_given_back_while_a_pod_that_has_vanished_may_run_in_it(more):
    pods = (pod(PodStage.FINISHED), pod(PodStage.WAITING, uid="uid-2"))
    unit = facts(*pods, missing=(LINGERS,), key=GANG, job=tracked(ENDLESS), **more)
    tell, again = decide(unit, NOW)
    assert isinstance(tell, Tell)
    assert (tell.pod, again) == (pods[1], Again(LINGER_LOOK_SECONDS))
    assert tell.message == (
        "Slurm job 4711 is RUNNING, and is kept because containers of train-1 may still run"
    )
    assert any(isinstance(it, Cancel) for it in decide(replace(unit, missing=()), NOW))


def test_pod_that_became_invalid_is_told_though_its_job_is_kept_for_one_that_has_vanished():
    pods = (pod(PodStage.WAITING, uid="uid-2"),)
    unit = facts(*pods, missing=(LINGERS,), key=GANG, job=tracked(ENDLESS), request=PROBLEMS)
    assert decide(unit, NOW) == (Reject(pods[0], PROBLEMS), Again(LINGER_LOOK_SECONDS))


def test_job_is_not_replaced_while_a_pod_that_has_vanished_may_run_in_it():
    job = tracked(record(nodes=("n1", "n2"), admin_comment=THREE))
    unit = facts(pod(PodStage.BOUND, uid="uid-0", node="n9"), missing=(LINGERS,), key=GANG, job=job)
    assert isinstance(decide(unit, NOW)[0], Warn)
    assert isinstance(decide(replace(unit, missing=()), NOW)[0], Submit)


def test_text_about_many_pods_that_have_vanished_is_short():
    many = tuple(replace(LINGERS, uid=f"gone-{at}", name=f"train-{at}") for at in range(500))
    unit = facts(pod(PodStage.WAITING), missing=many, job=tracked(warned()))
    tell = decide(unit, NOW)[0]
    assert isinstance(tell, Tell)
    assert "containers of train-0, train-1, train-2 and 497 more may" in tell.message


RUNNING: Final = tuple(pod(PodStage.BOUND, uid=f"uid-{at}", node=f"n{9 - at}") for at in range(2))


def test_new_job_for_pods_that_run_is_pinned_to_the_nodes_of_all():
    leaves = pod(PodStage.DEPARTING, uid="uid-2", node="n9")
    submit = decide(facts(*RUNNING, leaves, key=GANG), NOW)[0]
    assert isinstance(submit, Submit)
    assert (submit.nodes, submit.where) == (("n9", "n8"), "n9, n8")


def test_no_job_is_submitted_while_it_is_not_known_where_a_pod_runs():
    lost = pod(PodStage.BOUND, uid="uid-2", node="")
    assert decide(facts(*RUNNING, lost, key=GANG), NOW) == (SLOW,)


@pytest.mark.parametrize(("pinned", "waits"), [("n9,n8", True), ("n9", False), ("", False)])
def test_pending_job_is_waited_for_if_it_is_pinned_to_the_nodes_of_all(pinned, waits):
    comment = tag(uids=("uid-0", "uid-1"), key=GANG, node=pinned)
    job = tracked(record(BaseState.PENDING, nodes=(), admin_comment=comment))
    submits = [
        it for it in decide(facts(*RUNNING, key=GANG, job=job), NOW) if isinstance(it, Submit)
    ]
    assert [it.replaces for it in submits] == ([] if waits else [JOB])
