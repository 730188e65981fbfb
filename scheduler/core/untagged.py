"""A job that this process has submitted but that has lost its owner tag.

A site's job_submit plugin may set the admin_comment of every job, where our tag is. Without the tag
nobody knows after a restart whose job it is, so it is cancelled while this process still knows.
"""

from __future__ import annotations

from scheduler.core.actions import Action, Again, TakeBack, Warn
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import Tracked, UnitFacts
from scheduler.core.intervals import LINGER_LOOK_SECONDS, SLOW_LOOK_SECONDS
from slurmapi.model import BaseState


def untagged(facts: UnitFacts) -> bool:
    """Whether this is the very job that this process submitted, by its id, name and submit time,
    but without our tag.
    """
    job = facts.job
    if not isinstance(job, Tracked) or job.record is None or job.record.state.ended:
        return False
    record = job.record
    if job.submit_time is None:
        return False
    same = (record.name, record.submit_time) == (job.made_as, job.submit_time)
    return same and not facts.owns(record)


def give_up(facts: UnitFacts, job: Tracked, now: float) -> tuple[Action, ...]:
    """Cancel the job at once, and do not submit another one soon. But a job whose pod runs is kept,
    and so is one whose pod is gone but may still have running containers.
    """
    record = job.record
    if record is None or job.submit_time is None:
        return ()
    holds = record.state.base is not BaseState.PENDING
    if facts.any_runs and holds:
        message = (
            f"The AdminComment of Slurm job {job.job_id} was changed by somebody else. The job is "
            "kept while the pod runs, but the pod will not end with it: restore the AdminComment "
            "that the scheduler wrote, or recreate the pod"
        )
        return (Warn(Reason.PLACEHOLDER_LOST, message), Again(SLOW_LOOK_SECONDS))
    if now < facts.lingers_until and holds:
        return (Again(min(facts.lingers_until - now, LINGER_LOOK_SECONDS)),)
    taken = TakeBack(job.job_id, job.made_as, job.submit_time, unseen=facts.unseen)
    return (taken, Again(0.0))
