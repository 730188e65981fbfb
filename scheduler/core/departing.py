"""Pods that are being deleted while Slurm no longer holds their node: they must leave soon.

A deletion may have any grace period, such as `kubectl delete --grace-period=86400`. Until the
containers have stopped, nobody else can use what Slurm has given to the next job.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.core.actions import Action, Again, Hurry, Inspect
from scheduler.core.endings import (
    ending_of,
    hinted,
    preemption_warning,
    seconds_left,
    sentence,
    warned,
)
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodFacts, PodStage, Tracked, UnitFacts
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState


@dataclass(frozen=True, slots=True)
class _NodeLost:
    """Why the pod has lost its node. If Slurm warns before it takes the node, `given` is the whole
    time that it gives in seconds, and `left` what remains of it.
    """

    reason: Reason
    message: str
    given: int | None = None
    left: int | None = None


def hurry(facts: UnitFacts) -> tuple[Action, ...]:
    """For pods being deleted whose node Slurm has taken or will take: shorten each grace period
    that is longer than `_fits` allows. Nothing else is done about a departing pod.
    """
    leaving = tuple(pod for pod in facts.pods if _leaves(pod))
    job = facts.job
    if not leaving or not isinstance(job, Tracked) or not _may_be_taken(job):
        return (Again(SLOW_LOOK_SECONDS),)
    record = job.record
    if record is None or job.state is None or record.state.base is not job.state.base:
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    if hinted(job.state, record):
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    leaving = facts.seated(leaving, record)
    lost = _node_lost(facts, job, record) if leaving else None
    if lost is None:
        return (Again(SOON_SECONDS if not job.settled else SLOW_LOOK_SECONDS),)
    return (*_shortened(facts, leaving, lost), Again(SLOW_LOOK_SECONDS))


def _leaves(pod: PodFacts) -> bool:
    """Whether the pod is being deleted with a grace period that can be shortened. The least is one
    second, because zero would be a forced deletion.
    """
    grace = pod.deletion_grace_seconds
    return pod.stage is PodStage.DEPARTING and pod.placed_by_us and grace is not None and grace > 1


def _may_be_taken(job: Tracked) -> bool:
    """Whether the last pulse or look shows anything other than a running job. So a pod that leaves
    while its job runs costs Slurm no look.
    """
    if job.state is None:
        return False
    runs = job.state.base is BaseState.RUNNING and not job.state.flags
    return not runs or (job.record is not None and warned(job.record))


def _node_lost(facts: UnitFacts, job: Tracked, record: TaggedJob) -> _NodeLost | None:
    if record.state.ended:
        ending = ending_of(record.state)
        return _NodeLost(ending.reason, sentence(record, ending)) if job.settled else None
    if warned(record):
        left = seconds_left(record, epoch=facts.epoch)
        given = (record.end_time or 0) - (record.preempt_time or 0)
        return _NodeLost(Reason.PREEMPTED, preemption_warning(record, left), max(given, left), left)
    if record.state.base is BaseState.SUSPENDED and facts.evict_suspended:
        return _NodeLost(Reason.SUSPENDED, f"Slurm has suspended job {record.job_id}")
    if record.state.base is BaseState.PENDING and record.tag and job.requeued:
        return _NodeLost(Reason.REQUEUED, f"Slurm job {record.job_id} was requeued")
    return None


def _shortened(
    facts: UnitFacts, leaving: tuple[PodFacts, ...], lost: _NodeLost
) -> tuple[Action, ...]:
    return tuple(
        Hurry(pod, lost.reason, lost.message, _fits(facts, pod, lost.left))
        for pod in leaving
        if (pod.deletion_grace_seconds or 0) > _fits(facts, pod, lost.given)
    )


def _fits(facts: UnitFacts, pod: PodFacts, slurm_gives: int | None) -> int:
    """The pod's own grace period, which was checked before it got its job, or less if Slurm gives
    less. It does not depend on the present time, so that a grace period is shortened only once.
    """
    limits = (pod.grace_seconds, facts.longest_grace, slurm_gives)
    return max(1, min(limit for limit in limits if limit is not None))
