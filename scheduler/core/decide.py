"""The central decision: every combination of pods and placeholder has an answer here.

It asks three questions in order. Can none of the pods run any more? Then the placeholder is
cancelled. Does a pod run? Then its placeholder is kept, and the pod is ended only on positive
evidence that Slurm has ended the job. Otherwise a pod waits for a Node, and gets the one that its
placeholder holds.

A placeholder without pods is kept for a while if containers of a pod that vanished may still run
(`state/pod_remains.py`), or if other pods of its gang are expected (`expected_back` in `gang.py`).
"""

from __future__ import annotations

from typing import Final, assert_never

from scheduler.core.actions import (
    Action,
    Again,
    Cancel,
    Forget,
    Inspect,
    LookForTwins,
)
from scheduler.core.beside import kept_for_missing
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
from scheduler.core.gang import expected_back, gone_for_good
from scheduler.core.group_words import with_group_word
from scheduler.core.intervals import (
    CANCEL_AGAIN_SECONDS,
    SLOW_LOOK_SECONDS,
    SOON_SECONDS,
)
from scheduler.core.running import keep
from scheduler.core.spare_pods import with_spare
from scheduler.core.unknown_unit import leave_alone, of_unknown_unit
from scheduler.core.untagged import give_up, untagged
from scheduler.core.waiting import serve_waiting

_WANTS: Final = frozenset({PodStage.GATED, PodStage.WAITING})


def decide(facts: UnitFacts, now: float) -> tuple[Action, ...]:
    """What to do about a unit, in order. Total: it never raises, whatever the facts."""
    actions = _decide(facts, now)
    if facts.gang is not None:
        actions = with_group_word(facts, facts.gang, actions, now)
    return with_spare(facts, actions) if facts.spare else actions


def _decide(facts: UnitFacts, now: float) -> tuple[Action, ...]:
    if isinstance(facts.job, Tracked) and untagged(facts):
        return give_up(facts, facts.job, now)
    if not any(pod.stage in RUNS | _WANTS for pod in facts.pods):
        return _release(facts, now)
    if isinstance(facts.job, Tracked) and of_unknown_unit(facts):
        return leave_alone(facts, facts.job)
    if facts.any_runs:
        actions = keep(facts, now)
    else:
        actions = kept_for_missing(facts, serve_waiting(facts, now), now)
    return actions if facts.gang is None else (*gone_for_good(facts, now), *actions)


def _release(facts: UnitFacts, now: float) -> tuple[Action, ...]:
    """No pod can run any more, so nothing may be left in Slurm."""
    match facts.job:
        case NoJob():
            return (Forget(),)
        case InDoubt():
            return (LookForTwins(), Again(SOON_SECONDS))
        case Vanished(job_id=job_id, confirmed=confirmed, claimed=claimed):
            over = confirmed or claimed
            return (Forget(),) if over else (Inspect(job_id), Again(SOON_SECONDS))
        case Tracked() as job:
            return _end_job(facts, job, now)
        case _:
            assert_never(facts.job)


def _end_job(facts: UnitFacts, job: Tracked, now: float) -> tuple[Action, ...]:
    if job.claimed and job.record is None:
        # There may be thousands of finished pods. The pulse asks for 1000 jobs at once, and wakes
        # each unit.
        if job.state is None:
            return (Again(SLOW_LOOK_SECONDS),)
        if job.state.ended:
            return (Forget(),)
    if job.record is None:
        return (Inspect(job.job_id), Again(SOON_SECONDS))  # cancel only what is proven to be ours
    if not facts.owns(job.record):
        return (Forget(),)
    over = job.state is not None and job.state.ended and not job.state.partial
    partial = job.record.state.partial and not over  # the other components hold their nodes
    ended = job.record.state.ended or (job.state is not None and job.state.ended)
    if ended and not partial:
        return (Forget(),)
    if job.cancelled_at is not None and now - job.cancelled_at < CANCEL_AGAIN_SECONDS:
        return (Again(SOON_SECONDS),)
    if now < facts.lingers_until:
        return (Again(facts.linger_look(now)),)
    kept = expected_back(facts, job, now)
    if kept and not partial:
        return kept
    cancel = Cancel(job.job_id, _why_over(facts.pods), facts.outcome, unseen=facts.unseen)
    return (cancel, Again(SOON_SECONDS))


def _why_over(pods: tuple[PodFacts, ...]) -> str:
    """Why the job is needed no more. A completed pod may exist for days, so the text does not call
    it gone.
    """
    if not pods:
        return "its pod is gone"
    if any(pod.stage is PodStage.FINISHED for pod in pods):
        return "its pod has ended"
    return "its pod is being deleted"
