"""A pod runs: its placeholder is kept, and the pod is ended only on positive evidence.

What each end of a job means, such as a cancel by an administrator: `endings.py`. If the job is
lost: `lost_job.py`. If the pod is being deleted: `departing.py`. The brake on mass endings:
`execute/ending_brake.py` asks it before each eviction, `brake.py` has the rule.
"""

from __future__ import annotations

from typing import assert_never

from annotations import JobRequest
from scheduler.core.actions import (
    Action,
    Again,
    Evict,
    Inspect,
    Locate,
    LookForTwins,
    NoteEnd,
    ReadGang,
    Record,
    Warn,
)
from scheduler.core.beside import words_beside
from scheduler.core.departing import hurry
from scheduler.core.early_release import early_release, vacated
from scheduler.core.endings import (
    ending_of,
    hinted,
    not_launched,
    preemption_warning,
    seconds_left,
    sentence,
    warned,
)
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import (
    RUNS,
    InDoubt,
    NoJob,
    PodFacts,
    PodStage,
    Tracked,
    UnitFacts,
    Vanished,
)
from scheduler.core.intervals import (
    SLOW_LOOK_SECONDS,
    SOON_SECONDS,
)
from scheduler.core.lost_job import needs_of, regain, still_waits
from scheduler.core.lost_slots import on_lost_nodes
from scheduler.core.outgrown import grown_pods, outgrown
from scheduler.core.remaining import ends_at
from scheduler.core.seating import seats_forgotten
from scheduler.core.tagged import TaggedJob
from scheduler.core.unserved import refusals
from scheduler.core.untagged import is_known
from scheduler.core.waiting import allocated
from slurmapi.model import BaseState, Job


def keep(facts: UnitFacts, now: float) -> tuple[Action, ...]:
    """Decide about a pod that runs, or may run, and about those of its unit that wait beside it. If
    it is departing already, its placeholder is left alone.
    """
    actions = _keep(facts, now)
    return (*words_beside(facts, actions), *actions)


def _keep(facts: UnitFacts, now: float) -> tuple[Action, ...]:
    bound = tuple(pod for pod in facts.pods if pod.stage is PodStage.BOUND)
    if not bound:
        return hurry(facts)
    if not all(pod.placed_by_us for pod in bound):
        return (Again(SLOW_LOOK_SECONDS),)
    match facts.job:
        case NoJob(others_job=others_job):
            why = (
                f"id {others_job} belongs to another job now"
                if others_job
                else "no job is known for it"
            )
            return regain(facts, bound, now, why=why)
        case InDoubt():
            return (LookForTwins(), Again(SOON_SECONDS))
        case Vanished(job_id=job_id, confirmed=confirmed):
            if not confirmed:
                return (Inspect(job_id), Again(SOON_SECONDS))
            why = f"Slurm no longer knows job {job_id}"
            young = facts.tenure.lost_young
            return regain(facts, bound, now, why=why, lost_by_slurm=young)
        case Tracked() as job:
            return _guard(facts, bound, job, now)
        case _:
            assert_never(facts.job)


def _guard(
    facts: UnitFacts, bound: tuple[PodFacts, ...], job: Tracked, now: float
) -> tuple[Action, ...]:
    """The running pod's job is known by its id: check whether it still holds the node."""
    record = job.record
    if job.state is None or record is None or record.state.base is not job.state.base:
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    if hinted(job.state, record):
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    seated = facts.seated(bound, record)
    if not facts.owns(record) and not seated:
        if record.state.ended and not job.claimed and is_known(job, record):
            # Somebody has changed the AdminComment of our own job.
            return regain(facts, bound, now, why=sentence(record, ending_of(record.state)))
        # Slurm reuses an id only after losing its state.
        why = f"id {job.job_id} belongs to another job now"
        return regain(facts, bound, now, why=why, lost_by_slurm=not job.claimed)
    if len(seated) < len(bound) and record.state.base is BaseState.RUNNING:
        forgotten = seats_forgotten(facts, bound, record, now)
        if forgotten is not None:
            return (forgotten, Again(0.0))
    if not seated:
        return _of_former_pods(facts, bound, record, now)
    return _follow(facts, seated, job, record, now)


def _of_former_pods(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: TaggedJob, now: float
) -> tuple[Action, ...]:
    """The job is the gang's own, but has slots for none of these pods. If it is not for the nodes
    of any pod that runs, it is the job of pods that were there before: slurmctld has come back with
    an older state. Otherwise its end would be the end of other pods.
    """
    running = [pod for pod in facts.pods if pod.stage in RUNS]
    wanted = {*record.nodes, *(() if record.tag is None else record.tag.pinned)}
    away = all(pod.node and pod.node not in wanted for pod in running)
    if record.state.ended or not facts.owns(record) or not away:
        return (Again(SLOW_LOOK_SECONDS),)
    if now < facts.lingers_until:
        return (Again(facts.linger_look(now)),)
    why = f"Slurm job {record.job_id} is for former pods of the gang"
    return regain(facts, bound, now, why=why, replaces=record.job_id, lost_by_slurm=True)


def _follow(
    facts: UnitFacts, bound: tuple[PodFacts, ...], job: Tracked, record: TaggedJob, now: float
) -> tuple[Action, ...]:
    """The job has slots for these pods, so what happens to the job concerns them."""
    if record.state.ended and not job.settled:
        return (LookForTwins(), Again(SOON_SECONDS))
    if record.state.ended:
        ending = ending_of(record.state)
        message = sentence(record, ending)
        if ending.kept or not_launched(record):
            rest = record.job_id if record.state.partial else None  # it still holds nodes
            if rest is not None and now < facts.lingers_until:
                # Pods that have vanished may still run on them.
                return (Again(facts.linger_look(now)),)
            completing = job.state is not None and job.state.completing
            return regain(facts, bound, now, why=message, replaces=rest, completing=completing)
        return (*(_evict(facts, pod, ending.reason, message) for pod in bound), Again(SOON_SECONDS))
    if facts.unrecorded:
        return (Record(job.job_id), Again(0.0))
    match record.state.base:
        case BaseState.PENDING:
            return _pending_again(facts, bound, record, job, now)
        case BaseState.RUNNING:
            return _running(facts, bound, record, job, now)
        case BaseState.SUSPENDED if facts.evict_suspended:
            message = f"Slurm has suspended job {job.job_id}"
            evicted = (_evict(facts, pod, Reason.SUSPENDED, message) for pod in bound)
            return (*evicted, Again(SOON_SECONDS))
        case _:
            return (Again(SLOW_LOOK_SECONDS),)  # the policy keeps it, or its state is unknown


def _evict(facts: UnitFacts, pod: PodFacts, reason: Reason, message: str) -> Evict:
    return Evict(pod, reason, message, needs=needs_of(facts, pod))


def _pending_again(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: TaggedJob, job: Tracked, now: float
) -> tuple[Action, ...]:
    if job.requeued:
        return _evict_requeued(bound, record)
    tag = record.tag
    if tag is not None and tag.node and {pod.node for pod in bound} <= {*tag.pinned}:
        return still_waits(facts, bound, record, now)
    # After a crash slurmctld forgets that a job was started (measured), and would start it on any
    # node.
    why = f"Slurm has forgotten that job {record.job_id} was started"
    return regain(facts, bound, now, why=why, replaces=record.job_id, lost_by_slurm=True)


def _running(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: TaggedJob, job: Tracked, now: float
) -> tuple[Action, ...]:
    if warned(record):
        return _make_room(facts, bound, record)
    if facts.unlisted and not all(pod.node for pod in bound):
        return (Locate(), Again(0.0))
    lost = on_lost_nodes(facts, bound, record)
    if lost:
        return _go_on_without(lost, record)
    held = frozenset(record.nodes)
    if any(pod.node and pod.node not in held for pod in bound):
        return _elsewhere(facts, bound, record, job, now)
    come = tuple(pod for pod in facts.pods if pod.stage is PodStage.WAITING)
    unserved = tuple(pod for pod in come if pod.unserved)
    if unserved and facts.gang is not None and facts.gang.unread:
        return (ReadGang(),)  # it may tell that they are none of the gang
    refused = refusals(facts, unserved)
    waiting = tuple(pod for pod in come if not pod.unserved)
    if waiting:
        return (*refused, *allocated(facts, waiting, job, now))
    end = ends_at(record)
    notes = tuple(NoteEnd(pod, end) for pod in bound if pod.ends_at != end)
    reread, spare = vacated(facts, record, now), early_release(facts, record, now)
    again = Again(SLOW_LOOK_SECONDS)
    return (*refused, *notes, *_resized(facts, record), *reread, *spare, again)


def _go_on_without(lost: tuple[PodFacts, ...], record: TaggedJob) -> tuple[Action, ...]:
    """The job runs on, but no longer holds the nodes of these pods."""
    message = f"Slurm job {record.job_id} goes on with {len(record.nodes)} nodes, without node "
    evicted = (Evict(pod, Reason.NODE_FAILED, f"{message}{pod.node}") for pod in lost)
    return (*evicted, Again(SOON_SECONDS))


def _elsewhere(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: TaggedJob, job: Tracked, now: float
) -> tuple[Action, ...]:
    """The job does not hold the node of one of these pods. If it has not moved, their Nodes are now
    said to be other nodes than when they were bound: a label or a list was changed, perhaps for a
    moment only. Then the pods stay, as does the job.
    """
    if job.requeued:
        return _evict_requeued(bound, record)
    moved = not job.has_held
    running = [pod for pod in facts.pods if pod.stage in RUNS]
    held = frozenset(record.nodes)
    away = all(pod.node and pod.node not in held for pod in running)
    if away and moved and now >= facts.lingers_until:
        why = f"Slurm has started job {record.job_id} elsewhere"
        return regain(facts, bound, now, why=why, replaces=record.job_id, lost_by_slurm=True)
    astray = ", ".join(pod.name for pod in bound if pod.node and pod.node not in held)
    if away and not moved:
        nodes = ",".join(dict.fromkeys(pod.node for pod in running))
        message = (
            f"Slurm job {record.job_id} still holds {','.join(record.nodes)}, but the Node of "
            f"{astray} now counts as Slurm node {nodes}: correct the mapping of Nodes, or recreate "
            "the pod"
        )
        return (Warn(Reason.PLACEHOLDER_LOST, message), Again(SLOW_LOOK_SECONDS))
    # A new job for all pods would replace this one, which another pod still needs (I5).
    message = (
        f"Slurm job {record.job_id} is kept because another of its pods may run in it, but it does "
        f"not hold the node of {astray}: delete that pod, so that it comes again in the job"
    )
    again = facts.linger_look(now) if away and moved else SLOW_LOOK_SECONDS
    return (Warn(Reason.PLACEHOLDER_LOST, message), Again(again))


def _resized(facts: UnitFacts, record: TaggedJob) -> tuple[Action, ...]:
    if not isinstance(facts.request, JobRequest):
        return ()
    if record.parts:
        return _outgrown_shapes(facts, record)
    grown = outgrown(record, facts.request)
    message = f"The pod was resized while it ran: it asks for {grown}"
    return (Warn(Reason.RESIZED_BEYOND_JOB, message),) if grown else ()


def _outgrown_shapes(facts: UnitFacts, record: TaggedJob) -> tuple[Action, ...]:
    """Each pod that asks for more than the slot that it has in its component."""
    found = grown_pods(record, (it for it in facts.pods if it.stage is PodStage.BOUND))
    texts = (f"Pod {pod.name} was resized while it ran: it asks for {more}" for pod, more in found)
    return tuple(Warn(Reason.RESIZED_BEYOND_JOB, text) for text in texts)


def _make_room(facts: UnitFacts, bound: tuple[PodFacts, ...], record: Job) -> tuple[Action, ...]:
    """Evict the pods because Slurm announces a preemption. They get the time that is left, but no
    more than their own grace period.
    """
    left = seconds_left(record, epoch=facts.epoch)
    message = preemption_warning(record, left)
    return (
        *(
            Evict(pod, Reason.PREEMPTED, message, left if left < pod.grace_seconds else None)
            for pod in bound
        ),
        Again(SOON_SECONDS),
    )


def _evict_requeued(bound: tuple[PodFacts, ...], record: Job) -> tuple[Action, ...]:
    message = f"Slurm job {record.job_id} was requeued and has lost its node"
    return (*(Evict(pod, Reason.REQUEUED, message) for pod in bound), Again(SOON_SECONDS))
