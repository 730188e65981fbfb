"""A pod runs: its placeholder is kept, and the pod goes only on positive evidence of its end."""

from __future__ import annotations

from typing import Final, assert_never

from annotations import JobRequest, Problem
from scheduler.core.actions import (
    Action,
    Again,
    Evict,
    Inspect,
    Locate,
    LookForTwins,
    NoteEnd,
    Record,
    Submit,
    Warn,
)
from scheduler.core.edits import digests
from scheduler.core.endings import ending_of, hinted, seconds_left, sentence, warned, warning
from scheduler.core.facts import (
    InDoubt,
    NoJob,
    PodFacts,
    PodStage,
    Tracked,
    UnitFacts,
    Vanished,
)
from scheduler.core.naming import read_tag
from scheduler.core.pace import (
    SLOW_LOOK_SECONDS,
    SOON_SECONDS,
)
from scheduler.core.reasons import Reason
from scheduler.core.remaining import ends_at
from scheduler.core.waiting import allocated
from slurmapi.model import BaseState, Job

_REFUSED_NOW: Final = "The policy would refuse the pod now"


def keep(facts: UnitFacts, now: float) -> tuple[Action, ...]:
    """A pod runs, or may. What departs already is left alone, and its placeholder with it."""
    bound = tuple(pod for pod in facts.pods if pod.stage is PodStage.BOUND)
    if not bound or not all(pod.placed_by_us for pod in bound):
        return (Again(SLOW_LOOK_SECONDS),)
    match facts.job:
        case NoJob():
            return _reacquire(facts, bound, now, why="nothing is known of a job for it")
        case InDoubt():
            return (LookForTwins(), Again(SOON_SECONDS))
        case Vanished(job_id=job_id, confirmed=confirmed):
            if not confirmed:
                return (Inspect(job_id), Again(SOON_SECONDS))
            return _reacquire(facts, bound, now, why=f"Slurm no longer knows job {job_id}")
        case Tracked() as job:
            return _guard(facts, bound, job, now)
        case _:
            assert_never(facts.job)


def _guard(
    facts: UnitFacts, bound: tuple[PodFacts, ...], job: Tracked, now: float
) -> tuple[Action, ...]:
    """A pod runs and its placeholder's id is known: does it still hold the node?"""
    record = job.record
    if job.state is None or record is None or record.state.base is not job.state.base:
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    if hinted(job.state, record):
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    if not facts.owns(record):
        return _reacquire(facts, bound, now, why=f"job {job.job_id} is another's now")
    if record.state.ended and not job.settled:
        return (LookForTwins(), Again(SOON_SECONDS))
    if record.state.ended:
        ending = ending_of(record.state)
        told = sentence(record, ending)
        if ending.kept:
            return _reacquire(facts, bound, now, why=told)
        return (*(Evict(pod, ending.reason, told) for pod in bound), Again(SOON_SECONDS))
    if facts.unrecorded:
        return (Record(job.job_id), Again(0.0))
    match record.state.base:
        case BaseState.PENDING:
            return _pending_again(facts, bound, record, now)
        case BaseState.RUNNING:
            return _running(facts, bound, record, job, now)
        case BaseState.SUSPENDED if facts.evict_suspended:
            told = f"Slurm has suspended job {job.job_id}"
            return (*(Evict(pod, Reason.SUSPENDED, told) for pod in bound), Again(SOON_SECONDS))
        case _:
            return (Again(SLOW_LOOK_SECONDS),)  # suspended: kept; unknown destroys nothing


def _pending_again(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: Job, now: float
) -> tuple[Action, ...]:
    if _requeued(record):
        return _evict_requeued(bound, record)
    tag = read_tag(record.admin_comment)
    if tag is not None and tag.node and tag.node == bound[0].node:
        return (Again(SLOW_LOOK_SECONDS),)  # a re-acquisition in Slurm's queue
    # A crash of slurmctld forgets that a job was started (measured): Slurm would start it anywhere.
    why = f"Slurm has forgotten that job {record.job_id} was started"
    return _reacquire(facts, bound, now, why=why, replaces=record.job_id)


def _running(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: Job, job: Tracked, now: float
) -> tuple[Action, ...]:
    if warned(record):
        return _make_room(facts, bound, record)
    if facts.unlisted and not all(pod.node for pod in bound):
        return (Locate(), Again(0.0))
    if any(pod.node and pod.node not in record.nodes for pod in bound):
        if _requeued(record):
            return _evict_requeued(bound, record)
        why = f"Slurm has started job {record.job_id} elsewhere"
        return _reacquire(facts, bound, now, why=why, replaces=record.job_id)
    waiting = tuple(pod for pod in facts.pods if pod.stage is PodStage.WAITING)
    if waiting:
        return allocated(facts, waiting, job, now)
    end = ends_at(record)
    notes = tuple(NoteEnd(pod, end) for pod in bound if pod.ends_at != end)
    return (*notes, Again(SLOW_LOOK_SECONDS))


def _make_room(facts: UnitFacts, bound: tuple[PodFacts, ...], record: Job) -> tuple[Action, ...]:
    """The warning before a preemption: the pods get what is left of the time, and no more than
    they asked for.
    """
    left = seconds_left(record, epoch=facts.epoch)
    told = warning(record, left)
    return (
        *(
            Evict(pod, Reason.PREEMPTED, told, left if left < pod.grace_seconds else None)
            for pod in bound
        ),
        Again(SOON_SECONDS),
    )


def _requeued(record: Job) -> bool:
    """Whether it was since its pods were bound, by what Slurm itself says of both."""
    tag = read_tag(record.admin_comment)
    return record.restart_count > (0 if tag is None else tag.restarts)


def _evict_requeued(bound: tuple[PodFacts, ...], record: Job) -> tuple[Action, ...]:
    told = f"Slurm job {record.job_id} was requeued and has lost its node"
    return (*(Evict(pod, Reason.REQUEUED, told) for pod in bound), Again(SOON_SECONDS))


def _reacquire(
    facts: UnitFacts,
    bound: tuple[PodFacts, ...],
    now: float,
    *,
    why: str,
    replaces: int | None = None,
) -> tuple[Action, ...]:
    """The pod is healthy and Slurm does not know of it: ask for the very node it runs on."""
    if facts.unjudged:
        return (Again(SLOW_LOOK_SECONDS),)
    if not isinstance(facts.request, JobRequest) or not _was_accepted(facts, facts.request):
        return (_not_asked_for(facts, why), Again(SLOW_LOOK_SECONDS))
    if now < facts.submit_at:
        return (Again(facts.submit_at - now),)
    if facts.unlisted:
        return (Locate(), Again(0.0))
    if not bound[0].node:
        return (Again(SLOW_LOOK_SECONDS),)  # a placeholder elsewhere would hold nothing for it
    if facts.refused:
        why = f"{why}. {_REFUSED_NOW} ({_listed(facts.refused)}), and it is asked for as it was"
    submit = Submit(facts.request, node=bound[0].node, why=why, replaces=replaces)
    return (submit, Again(SLOW_LOOK_SECONDS))


def _was_accepted(facts: UnitFacts, request: JobRequest) -> bool:
    """A policy is about asking, and the pod runs by what was accepted. But annotations of a running
    pod can be edited: what the policy refuses now must be what the lost job was asked for, by its
    tag, which only administrators write.
    """
    return not facts.refused or digests(request) == facts.accepted


def _not_asked_for(facts: UnitFacts, why: str) -> Action:
    problems = facts.refused if isinstance(facts.request, JobRequest) else facts.request
    told = f"The pod runs without a Slurm job: {why}. None is asked for: {_listed(problems)}"
    return Warn(Reason.PLACEHOLDER_LOST, told)


def _listed(problems: tuple[Problem, ...]) -> str:
    return "; ".join(problem.text for problem in problems)
