"""Forged claims, unreadable answers, races and crashes between two steps: nobody else is harmed."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.core.node_suitability import Taint
from scheduler.observe.wake import WakeCause
from scheduler.reconcile.workqueue import LONGEST_SECONDS
from slurmapi import (
    BaseState,
    Job,
    JobState,
    SlurmBusy,
    SlurmInterrupted,
    SlurmRefused,
    SlurmUnreachable,
    SlurmUnreadable,
)
from tests.unit.core.things import tag as tag_of
from tests.unit.policy.policies import policy
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "uid-0"
OTHER = "uid-1"
RUNNING = JobState(BaseState.RUNNING)


def tag(uid: str = UID, *, node: str = "") -> str:
    return tag_of(uids=(uid,), node=node)


async def seen(kube: TinyKube) -> None:
    """Until the watch has shown all pods there are."""
    await asyncio.sleep(2 * kube.lag)


def live(slurm: TinySlurm) -> set[int]:
    return {job_id for job_id in slurm.jobs if slurm.live(job_id)}


async def again(service: Service, slurm: TinySlurm, kube: TinyKube) -> Service:
    """Another process in the place of this one, which is killed."""
    await service.kill()
    kube.relist()
    successor = Service(slurm, kube)
    successor.start()
    return successor


# --- a pod that names another's job ---------------------------------------------------------------


async def claim(kube: TinyKube, kind: str, job_id: int) -> None:
    """A pod that has the job's id in its annotation, and keeps it there as long as it can."""
    kube.create(
        OTHER,
        name="claims",
        annotations={JOB_ID: str(job_id)},
        gates=("not-yet",) if kind == "gated" else (),
        node="n2" if kind in {"departing", "invalid"} else "",
        cpu="" if kind == "invalid" else "4",
    )
    if kind == "departing":
        kube.delete(OTHER)
    await seen(kube)


CLAIMS = pytest.mark.parametrize("kind", ["gated", "waiting", "departing", "invalid"])


@CLAIMS
async def test_claim_of_a_job_hides_no_news_of_it_from_its_pod(slurm, kube, service, kind):
    await claim(kube, kind, 1)
    service.start()
    await asyncio.sleep(5)
    slurm.next_id = 1
    kube.create(UID)
    await asyncio.sleep(5)
    (job_id,) = [job.job_id for job in slurm.jobs.values() if f'"{UID}"' in job.admin_comment]
    slurm.start(job_id, node="n1")
    await asyncio.sleep(5)
    assert (UID, "n1") in kube.bindings
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(10)
    assert UID in kube.deleted


@CLAIMS
async def test_claim_of_a_job_does_not_keep_it_from_being_found(slurm, kube, service, kind):
    """The job whose submit was never answered gets the id that somebody's pod claims."""
    orphan = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    await claim(kube, kind, orphan)
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(30)
    assert kube.bindings[0] == (UID, "n1")
    assert slurm.live(orphan)


# --- a job that cannot be read --------------------------------------------------------------------


def make_unreadable(slurm: TinySlurm, bad: int) -> None:
    look = slurm.job

    async def job(job_id: int, *, longest: int | None = None) -> Job:
        if job_id == bad:
            raise SlurmUnreadable(f"the answer about job {job_id} does not hold it")
        return await look(job_id, longest=longest)

    slurm.job = job  # type: ignore[method-assign]


async def test_one_unreadable_job_of_others_keeps_nobody_from_being_served(slurm, kube, service):
    """The tasks of an array outlive the job whose id they are listed under: asked for that one,
    Slurm tells of the others only.
    """
    bad = slurm.add(state=RUNNING)
    make_unreadable(slurm, bad)
    orphan = slurm.add(admin_comment=tag("gone-uid"))
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    assert slurm.calls["submit"] == 1
    assert not slurm.live(orphan)


async def test_unreadable_job_that_a_pod_claims_keeps_nobody_from_being_served(
    slurm, kube, service
):
    bad = slurm.add(state=RUNNING)
    ours = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    make_unreadable(slurm, bad)
    kube.create(UID, annotations={JOB_ID: str(bad)})
    kube.create(OTHER, name="other")
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    assert kube.bindings == [(UID, "n1")]
    assert slurm.calls["submit"] == 1
    assert live(slurm) >= {bad, ours}


# --- twins ----------------------------------------------------------------------------------------


async def test_twin_that_the_pod_names_is_ended_only_after_the_pod_names_the_other(
    slurm, kube, service
):
    """Else the next process would take the end of the twin for somebody's scancel."""
    kept = slurm.add(admin_comment=tag(node="n1"), state=RUNNING, nodes=("n1",))
    named = slurm.add(admin_comment=tag(node="n1"), state_reason="Dependency")
    kube.create(UID, node="n1", annotations={JOB_ID: str(named), JOB_NODES: "n1"})
    await seen(kube)
    at_cancel: list[str] = []
    slurm.on_cancel = lambda _job: at_cancel.append(kube.pods[UID].metadata.annotations[JOB_ID])
    service.start()
    for _ in range(5):
        await asyncio.sleep(10)
        service.census.ask()
    assert live(slurm) == {kept}
    assert at_cancel == [str(kept)]


async def test_pod_whose_ended_twin_was_recorded_outlives_restarts(slurm, kube):
    kept = slurm.add(admin_comment=tag(node="n1"), state=RUNNING, nodes=("n1",))
    named = slurm.add(admin_comment=tag(node="n1"), state_reason="Dependency")
    kube.create(UID, node="n1", annotations={JOB_ID: str(named), JOB_NODES: "n1"})
    await seen(kube)
    service = Service(slurm, kube)
    service.start()
    for _ in range(3):
        await asyncio.sleep(20)
        service = await again(service, slurm, kube)
    await asyncio.sleep(20)
    service.unharmed()
    await service.kill()
    assert live(slurm) == {kept}
    assert kube.deleted == []


async def test_job_asked_for_anew_is_no_twin_while_its_submit_is_under_way(slurm, kube, service):
    """A census that comes in between would end it, and the pod with it."""
    old = slurm.add(admin_comment=tag())  # was started; a crash of slurmctld forgot it
    kube.create(UID, node="n1", annotations={JOB_ID: str(old), JOB_NODES: "n1"})
    await seen(kube)
    submit = slurm.submit

    async def slow(submission):
        submitted = await submit(submission)
        service.census.ask()
        await asyncio.sleep(5)
        return submitted

    slurm.submit = slow
    service.start()
    await asyncio.sleep(30)
    assert kube.deleted == []
    (new,) = live(slurm)
    assert new != old
    assert kube.pods[UID].metadata.annotations[JOB_ID] == str(new)


async def test_found_job_is_looked_at_again_before_its_pod_is_bound(slurm, kube, service):
    """Between a census' look at a job and its turn there may be slow work on other jobs."""
    held = slurm.add(admin_comment=tag(OTHER), state=RUNNING, nodes=("n2",))
    ours = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    slurm.add(admin_comment=tag(OTHER), state_reason="Dependency")
    kube.create(OTHER, name="other", node="n2", annotations={JOB_ID: str(held), JOB_NODES: "n2"})
    kube.create(UID)
    await seen(kube)
    cancel = slurm.cancel

    async def slow(job_ids, **limits):
        slurm.end(ours, BaseState.PREEMPTED)
        await asyncio.sleep(8)
        return await cancel(job_ids)

    slurm.cancel = slow
    service.start()
    await asyncio.sleep(30)
    assert not kube.bindings


async def test_lost_job_is_found_under_an_id_that_was_anothers(slurm, kube, service):
    """slurmctld crashes, forgets its newest job, and gives the id to ours; that answer is lost."""
    foreign = slurm.add()
    service.start()
    await asyncio.sleep(5)
    slurm.forget(foreign)
    slurm.next_id = foreign
    slurm.lose_next_submit = True
    kube.create(UID)
    await asyncio.sleep(30)
    assert live(slurm) == {foreign}
    slurm.start(foreign)
    await asyncio.sleep(10)
    assert len(kube.bindings) == 1


# --- what is told, and to whom --------------------------------------------------------------------


async def test_pod_is_told_that_slurm_is_away_before_its_first_census(slurm, kube, service):
    for operation in ("ping", "states", "all_states", "job", "submit"):
        slurm.fail[operation].extend([SlurmUnreachable("connection refused")] * 1000)
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.reason == "SlurmUnavailable"
    assert "connection refused" in condition.message


async def test_limit_of_one_account_keeps_no_other_pod_back(slurm, kube, service):
    """2050: the job violates an accounting limit, such as MaxSubmitJobs of its association."""
    service.start()
    await asyncio.sleep(3)

    def limited(submission):
        if "limited" not in submission.name:
            return None
        return SlurmRefused("Job violates accounting/QOS policy", error_number=2050, status=422)

    slurm.job_submit = limited
    for number in range(20):
        kube.create(f"limited-{number}", name=f"limited-{number}")
    await asyncio.sleep(60)
    kube.create(UID, name="free")
    await asyncio.sleep(1)
    assert len(slurm.jobs) == 1
    condition = kube.condition_of("limited-0")
    assert condition is not None
    assert condition.reason == "SlurmRejected"
    assert "accounting/QOS policy" in condition.message


# --- annotations that are taken away --------------------------------------------------------------


async def test_bound_pod_without_its_annotations_still_ends_with_its_job(slurm, kube, service):
    job_id = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    kube.create(UID, node="n1")
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(20)
    assert kube.deleted == [UID]


async def test_pod_bound_by_a_lost_answer_whose_job_ended_is_accounted_for(slurm, kube, service):
    """The binding was made, its answer lost, and the job's end came before the watch showed it."""
    kube.create(UID, node="n1", annotations={JOB_NODES: "n1"})
    await seen(kube)
    service.start()
    await asyncio.sleep(20)
    (job_id,) = live(slurm)
    assert slurm.submissions[job_id].required_nodes == ("n1",)


@pytest.mark.parametrize("change", ["node", "policy", "preemption"])
async def test_job_of_a_binding_whose_answer_was_lost_is_not_given_back(
    slurm, kube, service, change
):
    """The watch is behind, and something else says meanwhile that the allocation is of no use."""
    service.start()
    kube.create(UID, annotations={"sunk.coreweave.com/account": "x"})
    await asyncio.sleep(5)
    kube.lag, kube.lose_next_binding = 8.0, True

    def meanwhile(_uid: str, _node: str) -> None:
        match change:
            case "node":
                kube.set_node("n1", taints=(Taint("gone", effect="NoExecute"),))
            case "policy":
                service.rulebook.take(policy("rules: [{name: r, allowed: {account: [y]}}]"))
            case _:
                slurm.change(1, BaseState.PREEMPTED)

    kube.on_bind = meanwhile
    slurm.start(1)
    await asyncio.sleep(30)
    assert kube.bindings == [(UID, "n1")]
    assert slurm.calls["cancel"] == 0
    assert slurm.calls["submit"] == 1
    assert kube.deleted == ([UID] if change == "preemption" else [])


async def test_answer_lost_twice_leaves_one_job_for_a_pod_that_runs(slurm, kube, service):
    kube.create(UID, node="n1", annotations={JOB_ID: "999", JOB_NODES: "n1"})
    await seen(kube)
    slurm.fail["submit"].append(SlurmInterrupted("cut"))
    slurm.lose_next_submit = True
    service.start()
    await asyncio.sleep(120)
    assert len(live(slurm)) == 1


# --- a pod that forges what we know of it ---------------------------------------------------------


@pytest.mark.parametrize("later", [False, True], ids=["at its creation", "while it runs"])
async def test_pod_that_says_its_job_was_requeued_before_cannot_outstay_a_requeue(
    slurm, kube, later
):
    """Only Slurm knows how often a job was requeued when its pod was bound: a preemption by requeue
    must not be a matter of what the pod says.
    """
    forged = {"slurm-pod-scheduler/restarts": "4000000000"}
    kube.create(UID, annotations={} if later else forged)
    service = Service(slurm, kube)
    service.start()
    await asyncio.sleep(5)
    slurm.start(1)
    await asyncio.sleep(5)
    assert kube.bindings
    if later:
        await kube.patch_pod_status("ns", "train", UID, annotations=forged)
    successor = await again(service, slurm, kube)
    await asyncio.sleep(5)
    slurm.requeue(1)
    await asyncio.sleep(20)
    await successor.kill()
    assert kube.deleted == [UID]


async def test_job_requeued_before_its_pod_was_bound_is_no_reason_to_end_the_pod(slurm, kube):
    """Nor for a next process, which learns it from Slurm."""
    service = Service(slurm, kube)
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    slurm.requeue(1)
    slurm.start(1)
    await asyncio.sleep(5)
    assert len(kube.bindings) == 1
    service = await again(service, slurm, kube)
    await asyncio.sleep(600)
    assert kube.deleted == []
    slurm.requeue(1)
    await asyncio.sleep(20)
    assert kube.deleted == [UID]
    await service.kill()


async def test_pod_is_not_bound_before_its_job_says_how_often_it_was_requeued(slurm, kube, service):
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    update = slurm.update_job
    slurm.requeue(1)

    async def away(job_id: int, **changes: object) -> None:
        raise SlurmUnreachable("connection refused")

    slurm.update_job = away
    slurm.start(1)
    await asyncio.sleep(20)
    assert not kube.bindings
    slurm.update_job = update
    await asyncio.sleep(LONGEST_SECONDS)
    assert len(kube.bindings) == 1


@pytest.mark.parametrize("seconds", [0.5, 2.0])
async def test_pod_is_not_bound_beside_one_that_is_preempted_while_slurm_answers(
    slurm, kube, service, seconds
):
    """A look at the first pod's job is sent after a request for all states, and answered before
    Slurm reads the states.
    """
    service.start()
    old = await service.bound(OTHER, name="other")
    kube.create(UID)
    await asyncio.sleep(5)
    (new,) = slurm.jobs.keys() - {old}
    slurm.fail["states"].append(SlurmBusy("busy"))
    await _asked_for_states(slurm)
    slurm.seconds["states"] = seconds
    await _asked_for_states(slurm)
    service.queue.add(OTHER, WakeCause.WATCH)
    await asyncio.sleep(0.1)
    slurm.end(old, BaseState.PREEMPTED)
    slurm.start(new, node="n1")
    await asyncio.sleep(seconds + 0.05)
    assert kube.runs(OTHER)
    assert (UID, "n1") not in kube.bindings


@pytest.mark.parametrize("seconds", [0.5, 0.9, 1.0, 1.5])
async def test_pod_is_not_bound_beside_one_whose_job_is_said_to_run_too_late(
    slurm, kube, service, seconds, monkeypatch
):
    """A look at the first pod's job is answered after the pulse that has shown its end."""
    service.start()
    old = await service.bound(OTHER, name="other")
    kube.create(UID)
    await asyncio.sleep(5)
    (new,) = slurm.jobs.keys() - {old}
    late = _one_look_is_late(slurm, monkeypatch, old, seconds)
    service.units.get(OTHER).job.doubt(asyncio.get_running_loop().time())
    service.queue.add(OTHER, WakeCause.WATCH)
    await asyncio.sleep(0.05)
    assert not late
    slurm.end(old, BaseState.PREEMPTED)
    slurm.start(new, node="n1")
    await asyncio.sleep(seconds + 0.3)
    assert kube.runs(OTHER)
    assert (UID, "n1") not in kube.bindings


@pytest.mark.parametrize("base", [BaseState.PENDING, BaseState.SUSPENDED])
@pytest.mark.parametrize("seconds", [0.6, 1.5])
async def test_pod_is_not_bound_because_of_a_look_before_its_job_lost_the_node(
    slurm, kube, service, base, seconds, monkeypatch
):
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    late = _one_look_is_late(slurm, monkeypatch, 1, seconds)
    slurm.start(1, node="n1")
    while late:  # noqa: ASYNC110 - a mere number
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)
    if base is BaseState.PENDING:
        slurm.requeue(1)
    else:
        slurm.change(1, base)
    await asyncio.sleep(10)
    assert not kube.bindings


async def test_pod_that_is_deleted_by_force_before_the_watch_shows_its_node_may_still_run(
    slurm, kube, service
):
    service.start()
    kube.create(OTHER, name="other")
    await asyncio.sleep(5)
    kube.lag = 1000.0
    slurm.start(1, node="n1")
    await asyncio.sleep(3)
    assert (OTHER, "n1") in kube.bindings
    kube.lag = 0.01
    kube.force_delete_unseen(OTHER)
    await asyncio.sleep(1)
    assert slurm.live(1), "its containers may run for their grace period"
    slurm.end(1, BaseState.PREEMPTED)
    kube.create(UID)
    await asyncio.sleep(5)
    slurm.start(2, node="n1")
    await asyncio.sleep(30)
    assert not kube.runs(UID)
    await asyncio.sleep(60)
    assert kube.runs(UID)


def _one_look_is_late(
    slurm: TinySlurm, monkeypatch: pytest.MonkeyPatch, late_id: int, seconds: float
) -> list[float]:
    """What the next look at this job shows was so that many seconds before its answer comes. The
    list that is returned is empty once that look has been made.
    """
    job, late = slurm.job, [seconds]

    async def slowly(job_id: int) -> Job:
        found = await job(job_id)
        if job_id == late_id and late:
            await asyncio.sleep(late.pop())
        return found

    monkeypatch.setattr(slurm, "job", slowly)
    return late


async def _asked_for_states(slurm: TinySlurm) -> None:
    asked = slurm.calls["states"]
    while slurm.calls["states"] == asked:  # noqa: ASYNC110 - a mere number
        await asyncio.sleep(0.01)


async def test_crash_that_no_pulse_sees_costs_nobody_else_his_job(slurm, kube, service):
    """After an outage the pulse rests for long; what a census found meanwhile is old when slurmctld
    crashes once more, forgets our job, and gives its id to another.
    """
    service.start()
    kube.create(OTHER, name="other")
    await asyncio.sleep(5)
    slurm.fail["states"].extend([SlurmUnreachable("connection refused")] * 1000)
    await asyncio.sleep(35)
    slurm.lose_next_submit = True
    kube.create(UID)
    await asyncio.sleep(10)
    assert kube.pods[UID].metadata.annotations[JOB_ID] == "2", "a census has found it"
    slurm.forget(2)
    slurm.next_id = 2
    foreign = slurm.add()
    await asyncio.sleep(3)
    kube.edit(UID, {"sunk.coreweave.com/timeout": "soon"})
    await asyncio.sleep(1)
    slurm.fail.clear()
    await asyncio.sleep(60)
    assert slurm.live(foreign)


async def test_cancel_that_slurm_refuses_is_logged_once_and_sent_until_it_succeeds(
    slurm, kube, service
):
    """Its pod is gone, so nobody else would learn why the job still holds its node."""
    service.start()
    job_id = await service.bound(UID)
    slurm.fail["cancel"].extend(SlurmRefused("not today", error_number=2021) for _ in range(12))
    with capture_logs() as logs:
        kube.delete(UID)
        kube.end_containers(UID)
        await asyncio.sleep(300)
    assert [it["error"] for it in logs if it["event"] == "cancel refused"] == [
        str(SlurmRefused("not today", error_number=2021))
    ]
    assert service.acted("cancel", "refused") == 12
    assert not slurm.live(job_id)
