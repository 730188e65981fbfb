"""The state table, row by row: pods x placeholder -> what is done."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from scheduler.core.actions import (
    Action,
    Again,
    Bind,
    Cancel,
    DropJob,
    Evict,
    Exclude,
    Forget,
    Inspect,
    Locate,
    LookForTwins,
    Readmit,
    Reseat,
    Submit,
    Tell,
    Warn,
    Weigh,
)
from scheduler.core.decide import decide
from scheduler.core.edits import digests
from scheduler.core.endings import ending_of
from scheduler.core.event_reasons import Reason
from scheduler.core.evidence import Evidence
from scheduler.core.facts import InDoubt, JobFacts, NoJob, PodStage, UnitFacts, Vanished
from scheduler.core.in_the_way import ASK_AGAIN_SECONDS, patience
from scheduler.core.intervals import (
    CANCEL_AGAIN_SECONDS,
    FRESH_SECONDS,
    HANDOVER_SECONDS,
    MADE_READY_SECONDS,
    SLOW_LOOK_SECONDS,
    SOON_SECONDS,
    UNFIT_SECONDS,
)
from scheduler.core.lost_job import PINNED_SECONDS, RESOURCES_SECONDS, WEIGHED_SECONDS
from scheduler.core.node_suitability import Place, Unfit
from scheduler.core.owner_tag import Owner
from scheduler.core.tenure import Tenure
from slurmapi.model import PARTIAL, BaseState, JobState, SlurmNode
from tests.unit.core.things import (
    ENDED,
    GANG,
    IN_WAY,
    JOB,
    KEY,
    NOT_READY,
    NOW,
    PROBLEMS,
    REQUEST,
    SEATS,
    TAINTED,
    facts,
    places,
    pod,
    record,
    state,
    tag,
    tracked,
    warned,
)

SOON: Final = Again(SOON_SECONDS)
SLOW: Final = Again(SLOW_LOOK_SECONDS)
FOREIGN: Final = tag(owner=Owner("cluster-2", "slurm-scheduler"))
PENDING: Final = record(BaseState.PENDING, nodes=(), state_reason="Resources", priority=100)
WAITING: Final = pod(PodStage.WAITING)
AWAY: Final = "connection refused"
BOUND: Final = pod(PodStage.BOUND)


def kinds(actions: tuple[Action, ...]) -> list[str]:
    return [type(action).__name__ for action in actions]


# --- no pod is left that could run ----------------------------------------------------------------

OVER: Final = {
    "its pod is gone": (),
    "its pod is being deleted": (pod(PodStage.WITHDRAWN),),
    "its pod has ended": (pod(PodStage.FINISHED),),
}
RELEASE: Final[dict[str, tuple[JobFacts, tuple[Action, ...]]]] = {
    "no job": (NoJob(), (Forget(),)),
    "in doubt": (InDoubt(), (LookForTwins(), SOON)),
    "vanished": (Vanished(JOB, confirmed=False), (Inspect(JOB), SOON)),
    "vanished for sure": (Vanished(JOB, confirmed=True), (Forget(),)),
    "never looked at": (tracked(state=state(BaseState.RUNNING)), (Inspect(JOB), SOON)),
    "another's": (tracked(record(admin_comment=FOREIGN)), (Forget(),)),
    "pending": (tracked(PENDING), (Cancel(JOB, "its pod is gone"), SOON)),
    "running": (tracked(record()), (Cancel(JOB, "its pod is gone"), SOON)),
    "suspended": (
        tracked(record(BaseState.SUSPENDED)),
        (Cancel(JOB, "its pod is gone"), SOON),
    ),
    "cancelled a moment ago": (tracked(record(), cancelled_at=NOW - 1), (SOON,)),
    "cancelled, and alive long after": (
        tracked(record(), cancelled_at=NOW - CANCEL_AGAIN_SECONDS),
        (Cancel(JOB, "its pod is gone"), SOON),
    ),
    "ended since": (tracked(record(), state=state(BaseState.CANCELLED)), (Forget(),)),
    "ended": (tracked(record(BaseState.TIMEOUT)), (Forget(),)),
}


@pytest.mark.parametrize(("why", "pods"), OVER.items(), ids=["no pod", "withdrawn", "finished"])
@pytest.mark.parametrize(("job", "done"), RELEASE.values(), ids=RELEASE.keys())
def test_placeholder_without_a_pod_goes(why, pods, job, done):
    # A list that lacks the pod is no proof that it is gone.
    unseen = () if pods else (KEY,)
    done = tuple(
        replace(it, why=why, unseen=unseen) if isinstance(it, Cancel) else it for it in done
    )
    assert decide(facts(*pods, job=job), NOW) == done


# --- a pod waits ----------------------------------------------------------------------------------


def test_gated_pod_gets_no_job():
    assert decide(facts(pod(PodStage.GATED)), NOW) == (SLOW,)


@pytest.mark.parametrize(
    ("job", "then"),
    [
        (NoJob(), []),
        (InDoubt(), ["LookForTwins", "Again"]),
        (Vanished(JOB, confirmed=False), ["Inspect", "Again"]),
        (Vanished(JOB, confirmed=True), ["DropJob"]),
        (tracked(), ["Inspect", "Again"]),
        (tracked(PENDING), ["DropJob", "Cancel"]),
        (tracked(record()), ["DropJob", "Cancel"]),
        (tracked(record(BaseState.CANCELLED)), ["DropJob"]),
        (tracked(record(admin_comment="")), ["DropJob"]),
    ],
)
def test_pod_that_cannot_be_served_is_rejected_and_its_job_given_back(job, then):
    unit = facts(WAITING, job=job, request=PROBLEMS)
    assert kinds(decide(unit, NOW)) == ["Reject", *then]


PLACE: Final[dict[str, tuple[JobFacts, tuple[Action, ...]]]] = {
    "no job": (NoJob(), (Submit(REQUEST, SEATS, grace_seconds=30), SLOW)),
    "in doubt": (InDoubt(), (LookForTwins(tell=True), SOON)),
    "vanished": (Vanished(JOB, confirmed=False), (Inspect(JOB), SOON)),
    "vanished for sure": (
        Vanished(JOB, confirmed=True),
        (DropJob(JOB, "Slurm no longer knows it"), Again(0.0)),
    ),
    "never seen": (tracked(), (Inspect(JOB), SOON)),
    "another's": (
        tracked(record(admin_comment=FOREIGN)),
        (DropJob(JOB, "its id belongs to another job now"), Again(0.0)),
    ),
    "running, never looked at": (
        tracked(state=state(BaseState.RUNNING)),
        (Inspect(JOB), SOON),
    ),
    "running since the last look": (
        tracked(PENDING, state=state(BaseState.RUNNING)),
        (Inspect(JOB), SOON),
    ),
    "running, stale look": (
        tracked(record(), at=NOW - FRESH_SECONDS - 0.1),
        (Inspect(JOB), SOON),
    ),
    "running, fresh look": (tracked(record()), (Bind(WAITING, "n1", JOB, "kube-n1"), SLOW)),
    "ended since the last look": (
        tracked(record(), state=state(BaseState.CANCELLED)),
        (Inspect(JOB), SOON),
    ),
}


@pytest.mark.parametrize(("job", "done"), PLACE.values(), ids=PLACE.keys())
def test_waiting_pod(job, done):
    assert decide(facts(WAITING, job=job), NOW) == done


def test_end_of_a_job_that_was_given_back_says_nothing_about_a_pod_that_waits():
    former = record(BaseState.CANCELLED, admin_comment=tag(given_back=True))
    assert kinds(decide(facts(WAITING, job=tracked(former)), NOW)) == ["DropJob", "Again"]


def test_submit_waits_for_its_backoff():
    assert decide(facts(WAITING, submit_at=NOW + 3), NOW) == (Again(3.0),)


@pytest.mark.parametrize(
    ("looked", "told"),
    [
        (PENDING, "Slurm job 4711 is pending: Resources (priority 100)"),
        (record(BaseState.PENDING, partition="gpu", state_reason="Priority", priority=7), "gpu"),
        (record(BaseState.PENDING), "Slurm job 4711 is pending"),
    ],
)
def test_pending_pod_is_told_why_in_slurms_words(looked, told):
    first, again = decide(facts(WAITING, job=tracked(looked)), NOW)
    assert isinstance(first, Tell)
    assert (first.reason, first.cause) == ("SlurmPending", looked.state_reason)
    assert told in first.message
    assert again == SLOW


def test_pending_job_that_was_not_looked_at_is_told_plainly():
    first, _ = decide(facts(WAITING, job=tracked(state=state(BaseState.PENDING))), NOW)
    assert first == Tell(WAITING, Reason.SLURM_PENDING, "Slurm job 4711 is pending")


def test_job_held_by_its_twin_has_the_twin_looked_for():
    job = tracked(record(BaseState.PENDING, state_reason="Dependency"))
    assert LookForTwins() in decide(facts(WAITING, job=job), NOW)


@pytest.mark.parametrize(
    ("reason", "dependency", "looks"),
    [("Dependency", None, True), ("Dependency", "afterok:7", False), ("Resources", None, False)],
)
def test_job_for_the_node_of_a_running_pod_has_the_twin_looked_for_that_it_waits_for(
    reason, dependency, looks
):
    """The twin may be a former job of the pod that was requeued, and would start elsewhere."""
    pinned = record(BaseState.PENDING, nodes=(), admin_comment=tag(node="n1"), state_reason=reason)
    asked = replace(REQUEST, dependency=dependency)
    unit = facts(pod(PodStage.BOUND), job=tracked(pinned), request=asked)
    assert (LookForTwins() in decide(unit, NOW)) is looks


def test_job_that_is_made_ready_is_not_bound_to():
    job = tracked(record(BaseState.RUNNING, "CONFIGURING"), running_since=NOW)
    tell, again = decide(facts(WAITING, job=job), NOW)
    assert isinstance(tell, Tell)
    assert tell.message == "Slurm job 4711 has n1, which is being made ready"
    assert again == SLOW


def test_job_that_is_made_ready_is_left_to_the_pulse_for_long():
    pulse = state(BaseState.RUNNING, "CONFIGURING")
    young = tracked(state=pulse, allocated_at=NOW)
    assert decide(facts(WAITING, job=young), NOW) == (Again(MADE_READY_SECONDS),)
    tell, again = decide(facts(WAITING, job=young), NOW + MADE_READY_SECONDS)
    assert isinstance(tell, Tell)
    assert tell.message == "Slurm job 4711 has its nodes, which are being made ready"
    assert again == SLOW


@pytest.mark.parametrize("claimed", [True, False])
def test_job_that_is_made_ready_is_not_bound_to_whatever_else_is_known(claimed):
    """As one that a census has found, or that was on other nodes before it was requeued."""
    job = tracked(record(BaseState.RUNNING, "CONFIGURING"), claimed=claimed)
    tell, again = decide(facts(WAITING, job=job), NOW)
    assert isinstance(tell, Tell)
    assert "its nodes, which are being made ready" in tell.message
    assert again == SLOW


def test_claimed_job_that_is_made_ready_is_looked_at():
    pulse = state(BaseState.RUNNING, "CONFIGURING")
    job = tracked(state=pulse, allocated_at=NOW, claimed=True)
    assert decide(facts(WAITING, job=job), NOW) == (Inspect(JOB), SOON)


def test_job_that_was_made_ready_is_looked_at():
    young = tracked(state=state(BaseState.RUNNING, "CONFIGURING"), allocated_at=NOW)
    ready = replace(young, state=state(BaseState.RUNNING))
    assert decide(facts(WAITING, job=ready), NOW) == (Inspect(JOB), SOON)


@pytest.mark.parametrize("base", [BaseState.SUSPENDED, BaseState.UNKNOWN])
def test_suspended_or_unknown_job_is_told_and_left(base):
    tell, again = decide(facts(WAITING, job=tracked(record(base))), NOW)
    assert isinstance(tell, Tell)
    assert base in tell.message
    assert again == SLOW


@pytest.mark.parametrize("base", [BaseState.SUSPENDED, BaseState.UNKNOWN])
def test_suspended_job_is_looked_at_before_it_is_believed(base):
    assert decide(facts(WAITING, job=tracked(state=state(base))), NOW) == (Inspect(JOB), SOON)


@pytest.mark.parametrize("base", ENDED)
def test_job_that_ended_before_its_pod_was_bound(base):
    ended = record(base, state_reason="Why")
    actions = decide(facts(WAITING, job=tracked(ended)), NOW)
    ending = ending_of(ended.state)
    if ending.again:
        assert kinds(actions) == ["DropJob", "Again"]
    else:
        assert kinds(actions) == ["Evict", "Again"]
        assert isinstance(actions[0], Evict)
        assert actions[0].reason == ending.reason


@pytest.mark.parametrize(
    ("changed", "is_kept"),
    [
        ({}, True),
        ({"nodes": (), "state": state(BaseState.CANCELLED, "COMPLETING")}, True),
        ({"batch": False}, False),
        ({"end_time": 111}, False),
        ({"nodes": ()}, False),
    ],
    ids=["at once", "its record lacks the node for a moment", "external", "later", "no node"],
)
def test_waiting_pod_stays_if_its_node_could_not_start_the_script(changed, is_kept):
    cancelled = record(BaseState.CANCELLED, start_time=100, end_time=110, batch=True)
    cancelled = replace(cancelled, **changed)
    actions = decide(facts(WAITING, job=tracked(cancelled)), NOW)
    assert any(isinstance(it, Evict) for it in actions) == (not is_kept)
    assert any(isinstance(it, DropJob) for it in actions) == is_kept
    excluded = [it.node for it in actions if isinstance(it, Exclude)]
    assert excluded == (list(cancelled.nodes) if is_kept else [])


GIVEN_BACK = ["Tell", "Exclude", "DropJob", "Cancel", "Again"]


def test_allocation_where_waiting_can_help_is_told_then_given_back():
    def unit(since: float | None):
        unfit = places("n1", unfit=NOT_READY)
        return facts(WAITING, job=tracked(record()), nodes=unfit, unfit_since=since)

    assert kinds(decide(unit(None), NOW)) == ["Tell", "Again"]
    assert kinds(decide(unit(NOW - UNFIT_SECONDS + 1), NOW)) == ["Tell", "Again"]
    assert kinds(decide(unit(NOW - UNFIT_SECONDS), NOW)) == GIVEN_BACK


def test_allocation_where_no_waiting_helps_is_given_back_at_once_and_says_why():
    unit = facts(WAITING, job=tracked(record()), nodes=places("n1", unfit=TAINTED))
    actions = decide(unit, NOW)
    assert kinds(actions) == GIVEN_BACK
    tell, exclude, *_ = actions
    assert isinstance(tell, Tell)
    assert "Kubernetes Node kube-n1 (Slurm node n1) has the taint a:NoSchedule" in tell.message
    assert exclude == Exclude("n1", f"Kubernetes Node kube-n1 (Slurm node n1) {TAINTED}")


def test_slurm_is_asked_about_a_node_that_is_not_known():
    unit = facts(WAITING, job=tracked(record()), nodes={})
    assert decide(unit, NOW) == (Locate(("n1",)), Again(0.0))


def test_node_that_maps_to_nothing_is_given_back_at_once():
    nowhere = {"n1": Place("", Unfit("maps to no Kubernetes Node"))}
    actions = decide(facts(WAITING, job=tracked(record()), nodes=nowhere), NOW)
    assert kinds(actions) == GIVEN_BACK
    assert actions[1] == Exclude("n1", "Slurm node n1 maps to no Kubernetes Node")


def test_excluded_nodes_are_not_asked_for():
    (submit, _) = decide(facts(WAITING, excluded={"n1": "why"}), NOW)
    assert submit == Submit(REQUEST, SEATS, grace_seconds=30, excluded=(("n1", "why"),))


def test_pod_that_no_node_can_take_gets_no_job():
    tell, again = decide(facts(WAITING, nowhere="none fits", submit_at=NOW + 5), NOW)
    assert tell == Tell(WAITING, Reason.NO_NODE_FITS, "none fits", cause="no Node fits")
    assert again == SLOW


def test_pod_after_others_that_ended_too_soon_waits_and_says_so():
    unit = facts(WAITING, held_until=NOW + 7, held_why="the last 3 ended too soon")
    tell, again = decide(unit, NOW)
    assert tell == Tell(
        WAITING,
        Reason.CONTROLLER_BACK_OFF,
        "the last 3 ended too soon",
        cause=Reason.CONTROLLER_BACK_OFF,
    )
    assert again == Again(7.0)
    assert kinds(decide(unit, NOW + 7)) == ["Submit", "Again"]


def test_pod_that_runs_is_asked_for_anew_whoever_ended_before_it():
    unit = facts(BOUND, job=Vanished(JOB, confirmed=True), held_until=NOW + 7)
    assert kinds(decide(unit, NOW)) == ["Submit", "Again"]


def test_job_that_waits_learns_which_nodes_are_excluded_now():
    def unit(*in_slurm: str, at: float = NOW):
        job = record(BaseState.PENDING, nodes=(), excluded_nodes=in_slurm)
        request = replace(REQUEST, excluded_nodes=("n9",))
        return facts(WAITING, job=tracked(job, at=at), excluded={"n1": "why"}, request=request)

    assert Readmit(JOB, ("n1", "n9")) in decide(unit("n9"), NOW)
    assert Readmit(JOB, ("n1", "n9")) in decide(unit("n9", "n1", "n2"), NOW)
    assert "Readmit" not in kinds(decide(unit("n9", "n1"), NOW))
    assert "Readmit" not in kinds(decide(unit("n9", at=NOW - FRESH_SECONDS - 1), NOW))


def test_required_node_is_not_excluded_from_a_job_that_waits():
    job = record(BaseState.PENDING, nodes=())
    request = replace(REQUEST, required_nodes=("n1", "n2"))
    unit = facts(WAITING, job=tracked(job), excluded={"n1": "why", "n3": "why"}, request=request)
    assert Readmit(JOB, ("n3",)) in decide(unit, NOW)


def test_exclusions_of_a_former_process_stay_until_slurm_has_told_its_nodes():
    """Else the job could get, while this process starts, what its pod cannot use."""
    job = record(BaseState.PENDING, nodes=(), excluded_nodes=("n9",))
    unit = facts(WAITING, job=tracked(job), unlisted=AWAY)
    assert "Readmit" not in kinds(decide(unit, NOW))
    assert Readmit(JOB, ()) in decide(replace(unit, unlisted=""), NOW)


def test_nothing_is_submitted_before_slurm_has_told_its_nodes_and_the_pod_says_so():
    actions = decide(facts(WAITING, unlisted=AWAY), NOW)
    (tell,) = (it for it in actions if isinstance(it, Tell))
    assert kinds(actions) == ["Tell", "Again"]
    assert (tell.reason, AWAY in tell.message) == (Reason.SLURM_UNAVAILABLE, True)


def test_edit_of_a_pending_job_is_not_judged_before_slurm_has_told_its_nodes():
    """What the pod asks for may rest on them: its job must not be given back for that."""
    asked = tag(asked=replace(REQUEST, gres="gres/gpu:h100:1", comment="before"))
    job = tracked(record(BaseState.PENDING, nodes=(), admin_comment=asked))
    assert kinds(decide(facts(WAITING, job=job, unlisted=AWAY), NOW)) == ["Tell", "Again"]
    assert kinds(decide(facts(WAITING, job=job), NOW)) == ["DropJob", "Cancel", "Again"]


def test_pod_that_runs_gets_no_new_job_before_slurm_has_told_its_nodes():
    actions = decide(facts(pod(PodStage.BOUND), unlisted=AWAY), NOW)
    assert actions == (Locate(), Again(0.0))


def test_placeholder_of_a_pod_whose_slurm_node_is_unknown_is_not_asked_for_elsewhere():
    running = pod(PodStage.BOUND, node="")
    assert decide(facts(running, unlisted=AWAY), NOW) == (Locate(), Again(0.0))
    assert decide(facts(running), NOW) == (SLOW,)
    assert decide(facts(running, job=tracked(record(nodes=("n7",)))), NOW) == (SLOW,)


def test_end_of_a_job_does_not_wait_until_slurm_tells_its_nodes():
    """A list of nodes that cannot be had must not keep a pod whose resources are gone."""
    running = pod(PodStage.BOUND, node="")
    for job in (record(BaseState.PREEMPTED), warned()):
        actions = decide(facts(running, job=tracked(job), unlisted=AWAY, epoch=5000.0), NOW)
        assert kinds(actions)[0] == "Evict"
    held = tracked(record(nodes=("n7",)))
    assert decide(facts(running, job=held, unlisted=AWAY), NOW) == (Locate(), Again(0.0))


def test_pod_is_never_bound_beside_an_uncovered_one_and_its_node_is_not_kept_for_ever():
    job = tracked(record(), running_since=NOW - 1)
    unit = facts(WAITING, job=job, in_way=IN_WAY)
    tell, again = decide(unit, NOW)
    assert isinstance(tell, Tell)
    assert "pod old may still run, although since 1970" in tell.message
    assert again == SOON
    assert kinds(decide(replace(unit, in_way=None), NOW)) == ["Bind", "Again"]
    late = decide(replace(unit, in_way=replace(IN_WAY, until=NOW)), NOW)
    assert kinds(late) == ["Tell", "Exclude", "DropJob", "Cancel", "Again"]


def test_pod_whose_neighbour_is_about_to_be_asked_about_says_nothing_yet():
    unsure = replace(IN_WAY, since=NOW - 1, sure=False)
    unit = facts(WAITING, job=tracked(record(), running_since=NOW - 1), in_way=unsure)
    assert decide(unit, NOW) == (Again(ASK_AGAIN_SECONDS),)
    action, _ = decide(replace(unit, in_way=replace(unsure, since=0.0)), NOW)
    assert isinstance(action, Tell)
    assert "Slurm has not yet said" in action.message


@pytest.mark.parametrize(
    ("leaves_in", "seconds"), [(-5.0, UNFIT_SECONDS), (90.0, 90.0), (7200.0, HANDOVER_SECONDS)]
)
def test_allocation_is_kept_for_a_pod_that_leaves_within_bounds(leaves_in, seconds):
    assert patience(leaves_in) == seconds


HELD_UP: Final = {
    "made ready": (
        tracked(record(BaseState.RUNNING, "CONFIGURING"), at=NOW - 60, running_since=NOW - 60),
        SLOW,
    ),
    "one still stops": (tracked(record(), at=NOW - 60, running_since=NOW - 60), SOON),
}


@pytest.mark.parametrize(("job", "next_pass"), HELD_UP.values(), ids=HELD_UP.keys())
def test_allocation_that_is_held_up_costs_slurm_no_looks(job, next_pass):
    tell, again = decide(facts(WAITING, job=job, in_way=IN_WAY), NOW)
    assert isinstance(tell, Tell)
    assert again == next_pass


def test_what_is_held_up_is_looked_at_before_it_is_given_back_or_bound():
    warned_of = tracked(warned(), at=NOW - 60, running_since=NOW - 60)
    assert decide(facts(WAITING, job=warned_of, in_way=IN_WAY), NOW) == (Inspect(JOB), SOON)
    free = tracked(record(), at=NOW - 60, running_since=NOW - 60)
    assert decide(facts(WAITING, job=free), NOW) == (Inspect(JOB), SOON)
    elsewhere = tracked(record(), at=NOW - 60)
    assert decide(facts(WAITING, job=elsewhere, in_way=IN_WAY), NOW) == (Inspect(JOB), SOON)


def test_node_that_does_not_fit_is_given_back_though_a_pod_still_stops_there():
    job = tracked(record(), running_since=NOW - 1)
    nodes = places("n1", unfit=Unfit("has a taint"))
    assert "Cancel" in kinds(decide(facts(WAITING, job=job, nodes=nodes, in_way=IN_WAY), NOW))


def test_node_that_is_full_of_the_pod_in_the_way_is_waited_for_as_that_pod_is():
    """It may not be marked as leaving yet, in the moment its job has ended."""
    job = tracked(record(), running_since=NOW - 1)
    full = places("n1", unfit=Unfit("has 0 of 4 CPUs free", occupied=True))
    unit = facts(WAITING, job=job, nodes=full, in_way=IN_WAY)
    assert kinds(decide(unit, NOW)) == ["Tell", "Again"]
    late = replace(unit, in_way=replace(IN_WAY, until=NOW))
    assert kinds(decide(late, NOW)) == ["Tell", "Exclude", "DropJob", "Cancel", "Again"]
    assert "Cancel" in kinds(decide(replace(unit, in_way=None), NOW))


@pytest.mark.parametrize("nodes", [(), ("n1", "n2")])
def test_allocation_of_the_wrong_size_is_given_back(nodes):
    actions = decide(facts(WAITING, job=tracked(record(nodes=nodes))), NOW)
    assert kinds(actions) == ["DropJob", "Cancel", "Again"]


# --- a pod runs -----------------------------------------------------------------------------------

KEEP: Final[dict[str, tuple[JobFacts, tuple[Action, ...]]]] = {
    "no job": (NoJob(), (Submit(REQUEST, SEATS, grace_seconds=30, nodes=("n1",), tries=1), SLOW)),
    "in doubt": (InDoubt(), (LookForTwins(), SOON)),
    "vanished": (Vanished(JOB, confirmed=False), (Inspect(JOB), SOON)),
    "vanished for sure": (
        Vanished(JOB, confirmed=True),
        (Submit(REQUEST, SEATS, grace_seconds=30, nodes=("n1",), tries=1), SLOW),
    ),
    "never seen": (tracked(), (Inspect(JOB), SOON)),
    "never looked at": (tracked(state=state(BaseState.RUNNING)), (Inspect(JOB), SOON)),
    "changed since the last look": (
        tracked(record(), state=state(BaseState.PREEMPTED)),
        (Inspect(JOB), SOON),
    ),
    "another's": (
        tracked(record(BaseState.CANCELLED, admin_comment=FOREIGN)),
        (Submit(REQUEST, SEATS, grace_seconds=30, nodes=("n1",), tries=1), SLOW),
    ),
    "running here": (tracked(record(), at=NOW - 1000), (SLOW,)),
    "running elsewhere": (
        tracked(record(nodes=("n2",))),
        (Submit(REQUEST, SEATS, grace_seconds=30, nodes=("n1",), tries=1, replaces=JOB), SLOW),
    ),
    "unknown": (tracked(record(BaseState.UNKNOWN)), (SLOW,)),
    "pending, its start forgotten": (
        tracked(record(BaseState.PENDING, nodes=())),
        (Submit(REQUEST, SEATS, grace_seconds=30, nodes=("n1",), tries=1, replaces=JOB), SLOW),
    ),
    "pending, asked for on this node": (
        tracked(record(BaseState.PENDING, nodes=(), admin_comment=tag(node="n1"))),
        (Again(30.0),),
    ),
    "pending, asked for on another node": (
        tracked(record(BaseState.PENDING, nodes=(), admin_comment=tag(node="n2"))),
        (Submit(REQUEST, SEATS, grace_seconds=30, nodes=("n1",), tries=1, replaces=JOB), SLOW),
    ),
}


@pytest.mark.parametrize(("job", "done"), KEEP.values(), ids=KEEP.keys())
def test_bound_pod(job, done):
    assert decide(facts(BOUND, job=job), NOW) == done


KEPT: Final = (BaseState.FAILED, BaseState.OUT_OF_MEMORY)


@pytest.mark.parametrize("base", [base for base in ENDED if base not in KEPT])
def test_bound_pod_goes_when_its_job_has_ended(base):
    ended = record(base, state_reason="Why")
    evict, again = decide(facts(BOUND, job=tracked(ended)), NOW)
    assert isinstance(evict, Evict)
    assert evict.reason == ending_of(ended.state).reason
    assert f"Slurm job {JOB}" in evict.message
    assert "reason Why" in evict.message
    assert again == SOON


@pytest.mark.parametrize("base", KEPT)
def test_bound_pod_stays_when_only_the_process_of_its_job_has_died(base):
    ended = record(base, state_reason="NonZeroExitCode")
    submit, _ = decide(facts(BOUND, job=tracked(ended)), NOW)
    assert submit == Submit(REQUEST, SEATS, grace_seconds=30, nodes=("n1",), tries=1)
    assert isinstance(submit, Submit)
    assert f"Slurm job {JOB}" in submit.why


@pytest.mark.parametrize(
    ("changed", "stays"),
    [
        ({}, True),
        ({"end_time": 111}, False),
        ({"nodes": ()}, False),
        ({"admin_comment": tag()}, False),
        ({"state": JobState(BaseState.TIMEOUT)}, False),
        ({"start_time": None}, False),
    ],
    ids=[
        "at once",
        "later",
        "before it got a node",
        "the pod's first job",
        "otherwise",
        "at an unknown time",
    ],
)
def test_bound_pod_stays_if_its_node_could_not_start_the_new_script(changed, stays):
    cancelled = record(BaseState.CANCELLED, start_time=100, end_time=110)
    cancelled = replace(cancelled, admin_comment=tag(node="n1"))
    cancelled = replace(cancelled, **changed)
    assert kinds(decide(facts(BOUND, job=tracked(cancelled)), NOW)) == [
        "Submit" if stays else "Evict",
        "Again",
    ]


@pytest.mark.parametrize(
    "former",
    [
        record(BaseState.FAILED, "COMPLETING"),
        record(BaseState.OUT_OF_MEMORY, "COMPLETING"),
        record(  # it lacks its node for a moment
            BaseState.CANCELLED,
            "COMPLETING",
            nodes=(),
            start_time=100,
            end_time=110,
            admin_comment=tag(node="n1"),
        ),
    ],
    ids=["failed", "out of memory", "not launched"],
)
def test_nobody_else_is_suspected_while_the_former_job_still_holds_the_node(former):
    full = SlurmNode(name="n1", states=frozenset(), cpus=4, allocated_cpus=4)
    tenure = Tenure(node=full, node_at=NOW - 1, weighed_since=NOW - PINNED_SECONDS)
    unit = facts(BOUND, job=tracked(former), tenure=tenure)
    wrong = replace(unit, request=PROBLEMS, uses={KEY: REQUEST})
    for case in (unit, replace(unit, submit_at=NOW + 100), wrong):
        assert decide(case, NOW) == (SLOW,)
    over = replace(unit, tenure=replace(tenure, until=4000.0), epoch=4000.0)
    assert kinds(decide(over, NOW)) == ["Evict", "Again"], "its time does not wait for that"


def test_bound_pod_whose_job_was_requeued_goes():
    requeued = record(BaseState.PENDING, nodes=(), restart_count=1)
    evict, _ = decide(facts(BOUND, job=tracked(requeued)), NOW)
    assert isinstance(evict, Evict)
    assert evict.reason == "Requeued"


def test_reacquisition_waits_for_its_backoff():
    unit = facts(BOUND, job=Vanished(JOB, confirmed=True), submit_at=NOW + 7)
    assert decide(unit, NOW) == (Weigh("n1"), Again(5.0), Again(7.0))


def test_bound_pod_that_cannot_be_asked_for_again_is_left_alone_and_its_owner_told():
    warn, *others = decide(facts(BOUND, request=PROBLEMS), NOW)
    assert isinstance(warn, Warn)
    assert "expected a request" in warn.message
    assert others == [Weigh("n1"), Again(5.0)]
    assert decide(facts(BOUND, request=PROBLEMS, unjudged=True), NOW) == (SLOW,)


def test_bound_pod_that_the_policy_would_refuse_is_asked_for_as_it_was():
    unit = facts(
        BOUND,
        job=Vanished(JOB, confirmed=True),
        refused=PROBLEMS,
        accepted=dict(digests(REQUEST)),
    )
    submit, _ = decide(unit, NOW)
    assert isinstance(submit, Submit)
    assert submit.request == REQUEST
    assert "asks for the same as before" in submit.why


@pytest.mark.parametrize("accepted", [{}, dict(digests(REQUEST)) | {"account": "00000000"}])
def test_edit_of_a_running_pod_is_no_way_around_the_policy(accepted):
    job = Vanished(JOB, confirmed=True)
    unit = facts(BOUND, job=job, refused=PROBLEMS, accepted=accepted)
    assert kinds(decide(unit, NOW)) == ["Warn", "Weigh", "Again"]


def weighed_unit(
    *, cpus: int, since: float = NOW - PINNED_SECONDS, at: float = NOW - 1, **more: Any
) -> UnitFacts:
    """A pod that runs without a job. So many CPUs of its node have been allocated since then, and
    at that time they were counted last.
    """
    node = SlurmNode(name="n1", states=frozenset(), cpus=4, allocated_cpus=cpus)
    tenure = Tenure(node=node, node_at=at, weighed_since=since)
    fields: dict[str, Any] = {"job": Vanished(JOB, confirmed=True), "tenure": tenure}
    return facts(BOUND, **(fields | more))


@pytest.mark.parametrize(
    ("short_for", "looked", "then"),
    [
        (None, 1, [Again(PINNED_SECONDS)]),
        (RESOURCES_SECONDS - 10, 1, [Again(10.0)]),
        (RESOURCES_SECONDS, WEIGHED_SECONDS + 1, [Inspect(JOB), SOON]),
        (RESOURCES_SECONDS, 1, ["Evict", SOON]),
    ],
    ids=["not said yet", "for less than two minutes", "perhaps no longer", "for two minutes"],
)
def test_bound_pod_goes_when_slurm_says_without_a_break_that_resources_are_missing(
    short_for, looked, then
):
    pinned = replace(PENDING, admin_comment=tag(node="n1"))
    node = SlurmNode(name="n1", states=frozenset(), cpus=4)
    since = None if short_for is None else NOW - short_for
    tenure = Tenure(node=node, node_at=NOW - 1, pinned_since=NOW - 1800, short_since=since)
    unit = facts(BOUND, job=tracked(pinned, at=NOW - looked), tenure=tenure)
    found = decide(unit, NOW)
    assert ["Evict" if isinstance(it, Evict) else it for it in found] == then


REFUSED: Final[dict[str, dict[str, Any]]] = {
    "slurm has refused the last submit": {"submit_at": NOW + 100},
    "and it is tried again now": {"submit_at": NOW},
    "its annotations are wrong": {"request": PROBLEMS, "uses": {KEY: REQUEST}},
    "the policy refuses it": {"refused": PROBLEMS},
}


@pytest.mark.parametrize("why", REFUSED.values(), ids=REFUSED.keys())
def test_bound_pod_without_a_job_goes_when_another_job_has_taken_its_node(why):
    (evict,) = (it for it in decide(weighed_unit(cpus=1, **why), NOW) if isinstance(it, Evict))
    assert (evict.reason, evict.evidence) == (Reason.PLACEHOLDER_LOST, Evidence.TAKEN)
    assert f"Slurm no longer knows job {JOB}. Slurm has no new job for n1" in evict.message
    assert "other jobs have taken its resources: 3 of 4 CPUs" in evict.message
    early = weighed_unit(cpus=1, since=NOW - PINNED_SECONDS + 1, **why)
    for stays in (weighed_unit(cpus=0, **why), early, weighed_unit(cpus=1, at=NOW - 100, **why)):
        assert "Evict" not in kinds(decide(stays, NOW))


def test_first_new_job_is_asked_for_whatever_was_read_of_the_node_before():
    assert kinds(decide(weighed_unit(cpus=4), NOW)) == ["Submit", "Again"]


def test_job_that_may_have_started_there_since_its_last_look_is_looked_at_first():
    job = tracked(record(BaseState.FAILED), at=NOW - 2)
    unit = weighed_unit(cpus=4, job=job, submit_at=NOW + 100)
    assert decide(unit, NOW) == (Inspect(JOB), SOON, Again(100.0))
    assert kinds(decide(replace(unit, job=replace(job, record_at=NOW)), NOW)) == ["Evict", "Again"]


def test_pod_whose_use_is_not_known_stays():
    assert kinds(decide(weighed_unit(cpus=4, request=PROBLEMS), NOW)) == ["Warn", "Again"]


def test_nodes_of_a_gang_without_a_job_are_read_in_turns():
    pods = tuple(pod(PodStage.BOUND, uid=f"uid-{at}", node=f"n{at}") for at in range(3))
    unit = facts(*pods, key=GANG, submit_at=NOW + 100)
    for last, following in ((None, "n0"), ("n0", "n1"), ("n2", "n0"), ("another", "n0")):
        node = None if last is None else SlurmNode(name=last, states=frozenset())
        weigh = decide(replace(unit, tenure=Tenure(node=node)), NOW)[0]
        assert weigh == Weigh(following)
    full = SlurmNode(name="n1", states=frozenset(), cpus=4, allocated_cpus=4)
    tenure = Tenure(node=full, node_at=NOW - 100)
    assert decide(replace(unit, tenure=tenure), NOW)[0] == Weigh("n1"), "nobody goes by an old look"


def test_exclusions_that_slurm_refused_wait_out_their_pause():
    job = tracked(record(BaseState.PENDING, nodes=()))
    unit = facts(WAITING, job=job, excluded={"n1": "why"})
    (refused,) = (it for it in decide(unit, NOW) if isinstance(it, Readmit))
    unit = replace(unit, readmit_refused=refused.digest)
    paused = replace(unit, readmit_at=NOW + 1)
    assert "Readmit" not in kinds(decide(paused, NOW))
    assert "Readmit" in kinds(decide(paused, NOW + 1))
    assert "Readmit" in kinds(decide(replace(paused, excluded={"n2": "why"}), NOW))


@pytest.mark.parametrize("job", [NoJob(), tracked(record(BaseState.CANCELLED)), tracked(PENDING)])
def test_departing_pod_keeps_its_job_untouched(job):
    assert decide(facts(pod(PodStage.DEPARTING), job=job), NOW) == (SLOW,)


@pytest.mark.parametrize("job", [NoJob(), InDoubt(), tracked(record(BaseState.CANCELLED))])
def test_pod_placed_by_another_hand_is_left_alone(job):
    placed = pod(PodStage.BOUND, placed_by_us=False)
    assert decide(facts(placed, job=job), NOW) == (SLOW,)


@pytest.mark.parametrize(
    ("epoch", "own", "given"),
    [(5005, 30, 15), (5005, 15, None), (5005, 4, None), (5019.5, 30, 1), (5140, 30, 1)],
)
def test_pod_whose_job_is_being_preempted_gets_what_is_left_of_the_grace_time(epoch, own, given):
    bound = pod(PodStage.BOUND, grace_seconds=own)
    unit = facts(bound, job=tracked(warned()), epoch=epoch)
    evict, again = decide(unit, NOW)
    assert isinstance(evict, Evict)
    assert (evict.reason, evict.grace_seconds) == (Reason.PREEMPTED, given)
    assert again == SOON


@pytest.mark.parametrize("epoch", [0, 5010 - 3600, 5010 + 3600], ids=["none", "behind", "ahead"])
def test_clock_that_cannot_be_right_gives_the_whole_grace_time_and_no_more(epoch):
    unit = facts(pod(PodStage.BOUND, grace_seconds=300), job=tracked(warned()), epoch=epoch)
    evict, _ = decide(unit, NOW)
    assert isinstance(evict, Evict)
    assert evict.grace_seconds == 20


def test_job_that_is_sent_a_signal_is_looked_at_once():
    pulse = state(BaseState.RUNNING, "SIGNALING")
    assert decide(facts(BOUND, job=tracked(record(), state=pulse)), NOW) == (Inspect(JOB), SOON)
    signalled = tracked(record(BaseState.RUNNING, "SIGNALING"), state=pulse)
    assert decide(facts(BOUND, job=signalled), NOW) == (SLOW,)


def test_pod_is_not_bound_to_a_node_that_its_job_is_about_to_lose():
    actions = decide(facts(WAITING, job=tracked(warned())), NOW)
    assert kinds(actions) == ["DropJob", "Cancel", "Again"]


@pytest.mark.parametrize(("restarts", "then"), [(0, "Evict"), (1, "Evict"), (2, "Submit")])
def test_requeue_counts_from_the_bind_on(restarts, then):
    noted = tag(restarts=restarts)
    pending = record(BaseState.PENDING, nodes=(), restart_count=2, admin_comment=noted)
    assert kinds(decide(facts(BOUND, job=tracked(pending)), NOW))[0] == then


def test_job_requeued_and_started_elsewhere_has_left_its_pod():
    elsewhere = record(nodes=("n2",), restart_count=1)
    assert kinds(decide(facts(BOUND, job=tracked(elsewhere)), NOW)) == ["Evict", "Again"]
    assert decide(facts(BOUND, job=tracked(record(restart_count=1))), NOW) == (SLOW,)


def test_bind_remembers_how_often_the_job_had_been_requeued():
    actions = decide(facts(WAITING, job=tracked(record(restart_count=3))), NOW)
    assert actions == (Reseat(JOB, (), 3), Again(0.0))
    noted = tracked(record(restart_count=3, admin_comment=tag(restarts=3)))
    assert decide(facts(WAITING, job=noted), NOW) == (Bind(WAITING, "n1", JOB, "kube-n1"), SLOW)


def test_suspended_job_evicts_its_pod_unless_the_site_keeps_it():
    suspended = tracked(record(BaseState.SUSPENDED))
    evict, again = decide(facts(BOUND, job=suspended), NOW)
    assert isinstance(evict, Evict)
    assert (evict.reason, evict.grace_seconds, again) == (Reason.SUSPENDED, None, SOON)
    assert decide(facts(BOUND, job=suspended, evict_suspended=False), NOW) == (SLOW,)


# --- several pods, one job ------------------------------------------------------------------------


def test_pods_are_bound_rank_by_rank():
    """In Slurm's order of the nodes, which may follow the network and not the names."""
    pods = (pod(PodStage.WAITING, uid="b", rank=1), pod(PodStage.WAITING, uid="a", rank=3))
    actions = decide(facts(*pods, job=tracked(record(nodes=("n2", "n1")))), NOW)
    first, second = Bind(pods[0], "n2", JOB, "kube-n2"), Bind(pods[1], "n1", JOB, "kube-n1")
    assert actions == (first, second, SLOW)


def test_rest_of_a_half_bound_unit_is_bound():
    pods = (pod(PodStage.BOUND, uid="uid-0"), pod(PodStage.WAITING, uid="uid-1"))
    actions = decide(facts(*pods, job=tracked(record(nodes=("n1", "n2")))), NOW)
    assert actions == (Bind(pods[1], "n2", JOB, "kube-n2"), SLOW)


def test_job_of_a_half_bound_unit_is_kept_though_a_node_stays_unfit():
    pods = (pod(PodStage.BOUND, uid="uid-0"), pod(PodStage.WAITING, uid="uid-1"))
    unit = facts(
        *pods,
        job=tracked(record(nodes=("n1", "n2"))),
        nodes={**places("n1"), **places("n2", unfit=NOT_READY)},
        unfit_since=NOW - UNFIT_SECONDS,
    )
    assert kinds(decide(unit, NOW)) == ["Tell", "Again"]


def test_job_of_a_half_bound_unit_is_kept_though_it_has_too_few_nodes():
    pods = (pod(PodStage.BOUND, uid="uid-0"), pod(PodStage.WAITING, uid="uid-1"))
    tell, again = decide(facts(*pods, job=tracked(record())), NOW)
    assert isinstance(tell, Tell)
    assert (tell.pod, again) == (pods[1], SLOW)
    assert "this pod is bound once it holds a node for it" in tell.message


def test_what_other_components_of_its_own_job_hold_is_not_taken_for_others():
    """One component has failed, and Slurm refuses the job that is to replace all of it."""
    parts = tuple(
        record(base, nodes=(node,), admin_comment="")
        for base, node in ((BaseState.FAILED, "n1"), (BaseState.RUNNING, "n2"))
    )
    half = record(BaseState.FAILED, PARTIAL, nodes=("n1", "n2"), parts=parts)
    bound = pod(PodStage.BOUND, node="n2")
    full = SlurmNode(name="n2", states=frozenset(), cpus=4, allocated_cpus=4)
    tenure = Tenure(node=full, node_at=NOW - 1, weighed_since=NOW - PINNED_SECONDS)
    unit = facts(bound, job=tracked(half), tenure=tenure, submit_at=NOW + 100)
    assert "Evict" not in kinds(decide(unit, NOW))
