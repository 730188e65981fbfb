"""A job has ended before its pod was bound: another is submitted, or the pod is evicted.

What each end of a job means: `endings.py`. What follows from it for a bound pod: `running.py`.
"""

from __future__ import annotations

from scheduler.core.actions import (
    Action,
    Again,
    Cancel,
    DropJob,
    Evict,
    Exclude,
    Inspect,
    LookForTwins,
    Tell,
)
from scheduler.core.endings import ending_of, may_not_have_started, sentence
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodFacts, Tracked, UnitFacts
from scheduler.core.intervals import SOON_SECONDS
from scheduler.core.tagged import TaggedJob


def ended_before_bind(
    facts: UnitFacts, pods: tuple[PodFacts, ...], job: Tracked
) -> tuple[Action, ...]:
    """Another job is submitted, or the pods are evicted because somebody has ended this one. A pod
    that this job had no place for is not evicted.
    """
    if job.record is None or not job.record.state.ended:
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    if not job.settled:
        return (LookForTwins(), Again(SOON_SECONDS))
    ending = ending_of(job.record.state)
    message = sentence(job.record, ending)
    seated = facts.seated(pods, job.record)
    if ending.again or _was_given_back(job.record) or not seated:
        # The other components of a heterogeneous job still hold their nodes.
        rest = (Cancel(job.job_id, message),) if job.record.state.partial else ()
        return (DropJob(job.job_id, message), *rest, Again(0.0))
    if job.record.batch and may_not_have_started(job.record):
        return _asked_for_elsewhere(pods, job.record)
    return (*(Evict(pod, ending.reason, message) for pod in seated), Again(SOON_SECONDS))


def _asked_for_elsewhere(pods: tuple[PodFacts, ...], record: TaggedJob) -> tuple[Action, ...]:
    """slurmd may have failed to start the job's script, and would fail again. The record of a job
    that is COMPLETING may lack its nodes.
    """
    where = ",".join(record.nodes) or "its node"
    why = f"Slurm job {record.job_id} was cancelled as soon as it had started on {where}"
    message = f"{why}, where slurmd may be unable to start jobs: a new job avoids this node"
    tell = (Tell(pod, Reason.NODE_UNAVAILABLE, message) for pod in pods)
    exclude = (Exclude(node, "may be unable to start jobs") for node in record.nodes)
    return (*tell, *exclude, DropJob(record.job_id, why), Again(0.0))


def _was_given_back(record: TaggedJob) -> bool:
    """Whether we have ended the job ourselves, and not because of the pod."""
    return record.tag is not None and record.tag.given_back
