"""What the end of a placeholder means for a pod, by Slurm's final state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.core.reasons import Reason
from slurmapi.model import BaseState, Job, JobState


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


def ending_of(state: JobState) -> Ending:
    """The meaning of a final state; raises KeyError for one that is none."""
    return _ENDINGS[state.base]


# A flag of a job that is sent a signal, as the one that comes with GraceTime (measured: it lasts
# ten seconds on a node without a slurmd, and goes unseen on one with it).
SIGNALING: Final = "SIGNALING"


def hinted(pulse: JobState, record: Job) -> bool:
    """Whether the pulse shows a signal that may be the warning, and the last look does not."""
    return SIGNALING in pulse.flags - record.state.flags and record.preempt_time is None


def warned(record: Job) -> bool:
    """Whether Slurm has chosen this running job to make room, and gives it GraceTime to leave. What
    came before its start was about a former run: a job may have been requeued since.
    """
    if record.state.base is not BaseState.RUNNING or record.end_time is None:
        return False
    return record.preempt_time is not None and record.preempt_time >= (record.start_time or 0)


# slurmctld ends a warned job at its next check of time limits (measured: up to 30 s late). One that
# runs so long after its end does so by a clock of ours that is wrong.
_LATEST_SECONDS: Final = 120


def seconds_left(record: Job, *, epoch: float) -> int:
    """What is left of the GraceTime of a job that was warned: 1 s to all of it, however far the
    two clocks are apart, and all where ours cannot be right. Zero would be no grace but force.
    """
    if record.preempt_time is None or record.end_time is None:
        return 1
    given = record.end_time - record.preempt_time
    left = int(record.end_time - epoch)
    return max(1, given if left < -_LATEST_SECONDS else min(given, left))


def warning(record: Job, left: int) -> str:
    """For people: what is about to happen to which job."""
    return f"Slurm is preempting job {record.job_id}, which ends in {left} s (GraceTime)"


def sentence(job: Job, ending: Ending) -> str:
    """For people: what happened to which job, with Slurm's own words where it gives them."""
    said = f", reason {job.state_reason}" if job.state_reason not in {"", "None"} else ""
    return f"Slurm job {job.job_id} {ending.cause} (state {job.state}{said})"
