"""A pod whose job is that of a unit of several pods, which this process does not know.

A newer version wrote that job's tag, or the same version with other settings. The job serves other
pods too, so it is left alone, and its pods with it: they get no jobs of their own as long as it
lives. If it ends, its end counts for each of its pods, as it would in the process that knows the
unit.
"""

from __future__ import annotations

from scheduler.core.actions import Action, Again, Inspect, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodStage, Tracked, UnitFacts
from scheduler.core.intervals import SLOW_LOOK_SECONDS, SOON_SECONDS


def of_unknown_unit(facts: UnitFacts) -> bool:
    """Whether the job seats the unit's pod, but is not the unit's own, and has not ended."""
    record = facts.job.record if isinstance(facts.job, Tracked) else None
    if record is None or record.state.ended or facts.owns(record):
        return False
    return bool(facts.seated(facts.pods, record))


def leave_alone(facts: UnitFacts, job: Tracked) -> tuple[Action, ...]:
    """Do nothing about the job and its pod, and say so if the pod waits."""
    if job.state is None or job.state.ended:
        return (Inspect(job.job_id), Again(SOON_SECONDS))
    message = (
        f"Slurm job {job.job_id} is {job.state}. It was submitted for a group of pods, which this "
        "scheduler does not serve as a group, so it leaves the job and its pods alone"
    )
    waiting = (pod for pod in facts.pods if pod.stage is PodStage.WAITING)
    tell = (Tell(pod, Reason.SLURM_PENDING, message) for pod in waiting)
    return (*tell, Again(SLOW_LOOK_SECONDS))
