"""When a new job is shown on the pod that waits for it: not before it is clear that the job waits.

Most jobs start at once. For these, a condition, an annotation and an Event would be written that
are overtaken a moment later, and a burst of pods would cost twice the requests. If the process ends
before the job is written on its pod, a census finds the job by its tag.
"""

from __future__ import annotations

from scheduler.core.actions import Action, Again, Bind, DropJob, Evict, Record, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import Tracked, UnitFacts
from scheduler.core.intervals import (
    LONGEST_UNTOLD_SECONDS,
    SHOWN_AFTER_SECONDS,
    SOON_SECONDS,
    UNTOLD_SECONDS,
)
from slurmapi.model import BaseState


def told_at(*, submitted_at: float, asked_at: float, runs: bool) -> float:
    """When the job is shown, if the pod is not bound before. `asked_at` is when the last request
    was sent whose answer showed the job's state, and `runs` whether it runs by now. Only a request
    that came late enough shows that the job waits. So if Slurm is slow, less is written and not
    more.
    """
    waits = not runs and asked_at - submitted_at >= SHOWN_AFTER_SECONDS
    return submitted_at + (UNTOLD_SECONDS if waits else LONGEST_UNTOLD_SECONDS)


def first_words(
    facts: UnitFacts, job: Tracked, actions: tuple[Action, ...], now: float
) -> tuple[Action, ...]:
    """These actions for a pod that waits, without the words that come too early. If it is time for
    words and there are none, the job is recorded, since nothing else would do that.
    """
    ends_the_wait = any(isinstance(it, Bind | DropJob | Evict) for it in actions)
    if facts.tell_at is None or ends_the_wait:
        return actions
    if now < facts.tell_at:
        kept = tuple(it for it in actions if not _says_that_it_waits(it))
        # Of a job that has not started, an answer of Slurm may allow the words earlier than
        # `tell_at` says now.
        started = job.state is not None and job.state.base is BaseState.RUNNING
        seconds = facts.tell_at - now
        return (*kept, Again(seconds if started else min(seconds, SOON_SECONDS)))
    if any(isinstance(it, Tell) for it in actions):
        return actions
    return (*recorded(facts, job.job_id, now), *actions)


def recorded(facts: UnitFacts, job_id: int, now: float) -> tuple[Action, ...]:
    """Record the job on its pod if it is time for that, and nothing else writes its id."""
    due = facts.tell_at is not None and now >= facts.tell_at and facts.unrecorded
    return (Record(job_id),) if due else ()


def _says_that_it_waits(action: Action) -> bool:
    return isinstance(action, Tell) and action.reason is Reason.SLURM_PENDING
