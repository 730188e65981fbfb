"""What the end of a placeholder means for a pod, by Slurm's final state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.core.reasons import Reason
from slurmapi.model import BaseState, Job


@dataclass(frozen=True, slots=True)
class Ending:
    """`reason` goes into the DisruptionTarget condition and the Event, `cause` into a sentence.

    `again` says that the end is not meant for the pod: one that was never bound gets a new job.
    `kept` says that only the placeholder's own process has died: a pod that runs is healthy, and
    its node is asked for anew.
    """

    reason: Reason
    cause: str
    again: bool = False
    kept: bool = False


_ENDINGS: Final = {
    BaseState.COMPLETED: Ending(Reason.PLACEHOLDER_COMPLETED, "has completed"),
    BaseState.CANCELLED: Ending(Reason.PLACEHOLDER_CANCELLED, "was cancelled"),
    BaseState.FAILED: Ending(Reason.PLACEHOLDER_LOST, "has failed", again=True, kept=True),
    BaseState.TIMEOUT: Ending(Reason.TIME_LIMIT, "has reached its time limit"),
    BaseState.DEADLINE: Ending(Reason.TIME_LIMIT, "has reached its deadline"),
    BaseState.NODE_FAIL: Ending(Reason.NODE_FAILED, "lost its node", again=True),
    BaseState.BOOT_FAIL: Ending(Reason.NODE_FAILED, "got a node that did not boot", again=True),
    BaseState.PREEMPTED: Ending(Reason.PREEMPTED, "was preempted", again=True),
    BaseState.OUT_OF_MEMORY: Ending(
        Reason.PLACEHOLDER_LOST, "ran out of memory", again=True, kept=True
    ),
}


def ending_of(job: Job) -> Ending:
    """The meaning of an ended job's state; raises KeyError for one that has not ended."""
    return _ENDINGS[job.state.base]


def sentence(job: Job, ending: Ending) -> str:
    """For people: what happened to which job, with Slurm's own words where it gives them."""
    said = f", reason {job.state_reason}" if job.state_reason not in {"", "None"} else ""
    return f"Slurm job {job.job_id} {ending.cause} (state {job.state}{said})"
