"""What each final state of a placeholder means for its pod, and how Slurm warns of a preemption.

`running.py` and `waiting.py` decide what follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.core.event_reasons import Reason
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState, Job, JobState


@dataclass(frozen=True, slots=True)
class Ending:
    """`reason` is used in the DisruptionTarget condition and the Event, `cause` in a sentence.

    `again` says that the end does not concern the pod: a pod that was never bound gets a new job.
    `kept` says that only the placeholder's own process has died: a running pod is healthy, and a
    new job is submitted for its node.
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
    """The meaning of a final state. Raises KeyError for any other state."""
    return _ENDINGS[state.base]


# The flag of a job that is being sent a signal, such as the warning at the start of GraceTime.
# Measured: without a slurmd it lasts ten seconds; with one it is gone too soon to be seen.
SIGNALING: Final = "SIGNALING"


# slurmd gives up within a second of the job's start (measured), and slurmctld hears of it later.
_LAUNCH_SECONDS: Final = 10


def hinted(pulse: JobState, record: Job) -> bool:
    """Whether the pulse shows a signal that may be the warning, and the last look did not
    show it.
    """
    return SIGNALING in pulse.flags - record.state.flags and record.preempt_time is None


def not_launched(record: TaggedJob) -> bool:
    """Whether Slurm itself may have cancelled a job that was to hold a running pod's node again."""
    return record.tag is not None and bool(record.tag.node) and may_not_have_started(record)


def may_not_have_started(record: TaggedJob) -> bool:
    """Whether Slurm itself may have cancelled a job.

    slurmd asks for that when it cannot start the script of a job that must not be requeued: its
    disk is full, slurmstepd fails, or a former job had the same id (measured on 26.05.5 and
    24.11.5). The record looks as if a person had cancelled the job, so only its age tells. A job
    that never got a node was cancelled by a person.
    """
    if record.state.base is not BaseState.CANCELLED:
        return False
    # Only a job that got a node is COMPLETING. Its record may lack the node meanwhile (measured).
    had_node = bool(record.nodes) or record.state.completing
    if not had_node or record.start_time is None or record.end_time is None:
        return False
    return record.end_time - record.start_time <= _LAUNCH_SECONDS


def warned(record: Job) -> bool:
    """Whether Slurm is preempting this running job and gives it GraceTime to leave. A preempt_time
    before its start is about a former run, because the job may have been requeued since.
    """
    if record.state.base is not BaseState.RUNNING or record.end_time is None:
        return False
    return record.preempt_time is not None and record.preempt_time >= (record.start_time or 0)


# slurmctld ends a warned job at its next check of time limits (measured: up to 30 s late). If a job
# seems to run this long after its end, our clock must be wrong.
_LATEST_SECONDS: Final = 120


def seconds_left(record: Job, *, epoch: float) -> int:
    """How many seconds of a warned job's GraceTime are left: at least 1 and at most all of it,
    however much the clocks differ; all of it if our clock must be wrong. Zero would be a forced
    deletion.
    """
    if record.preempt_time is None or record.end_time is None:
        return 1
    given = record.end_time - record.preempt_time
    left = int(record.end_time - epoch)
    return max(1, given if left < -_LATEST_SECONDS else min(given, left))


def preemption_warning(record: Job, left: int) -> str:
    """The sentence for people that says which job Slurm is about to end."""
    return f"Slurm is preempting job {record.job_id}, which ends in {left} s (GraceTime)"


def sentence(job: Job, ending: Ending) -> str:
    """The sentence for people that says what happened to which job, in Slurm's own words if it
    gives any.
    """
    said = f", reason {job.state_reason}" if job.state_reason not in {"", "None"} else ""
    return f"Slurm job {job.job_id} {ending.cause} (state {job.state}{said})"
