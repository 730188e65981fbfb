"""What is remembered of the time that Slurm gave a pod, while one job takes the place of another.

A job that replaces a lost one gets what was left of the time and no more: a user who kills the
script of each placeholder gains nothing. All of it comes from records of our own jobs, which only
administrators can write, or from the kubelet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from scheduler.core.naming import OwnerTag
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState, Job, SlurmNode

MOST_TRIES: Final = 5
"""So often a pod's node is asked for anew before the pod goes: each costs Slurm a job."""
FIRST_TRIES: Final = 3
"""So many of these come before all other jobs in the queue."""
STEADY_SECONDS: Final = 3600.0
"""A job that has run for so long is no failed try: then the count begins anew."""
_SECONDS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """`until` is when the pod's time is over, in seconds of the epoch, None where it has no end or
    nothing is known. `tries` counts the jobs that were asked for in the place of lost ones.
    """

    until: float | None = None
    tries: int = 0
    pinned_since: float | None = None
    """Since when a job waits for the very node of its pod."""
    lost_young: bool = False
    """Whether the job was missed less than MinJobAge after it lived: Slurm itself has lost it,
    since it remembers a job that has ended for so long."""
    node: SlurmNode | None = None
    """The record of the pod's Slurm node, as read at `node_at`."""
    node_at: float = 0.0
    source: TaggedJob | None = None
    """The record that was learnt from last."""

    def minutes(self, epoch: float) -> int | None:
        """What is left of the time, for a new job; None where that is not known."""
        return None if self.until is None else max(1, math.ceil((self.until - epoch) / _SECONDS))

    def is_over(self, epoch: float) -> bool:
        """Whether nothing is left of it."""
        return self.until is not None and epoch >= self.until


def learnt(tenure: Tenure, record: TaggedJob, *, now: float, epoch: float) -> Tenure:
    """What is known after a look at the pod's own job."""
    tag = record.tag
    if tag is None or record is tenure.source:
        return tenure
    pinned = record.state.base is BaseState.PENDING and bool(tag.node)
    return replace(
        tenure,
        until=_until(record, tag) or tenure.until,
        tries=0 if _ran_long(record, epoch) else max(tenure.tries, tag.tries),
        pinned_since=(tenure.pinned_since or now) if pinned else None,
        source=record,
    )


def _until(record: Job, tag: OwnerTag) -> float | None:
    """By the job's own start and limit, which an operator may have changed. A limit is in whole
    minutes, so one that was made from what was left may end a little later than that.
    """
    if not record.start_time or record.time_limit_minutes is None or not _has_started(record):
        return tag.until or None
    end = float(record.start_time + _SECONDS * record.time_limit_minutes)
    rounded_up = tag.until and 0 <= end - tag.until <= 2 * _SECONDS
    return float(tag.until) if rounded_up else end


def _has_started(record: Job) -> bool:
    """The start time of a job that waits is only expected."""
    return record.state.base is not BaseState.PENDING


def _ran_long(record: Job, epoch: float) -> bool:
    if not record.start_time or not _has_started(record):
        return False
    ended = record.end_time if record.state.ended and record.end_time else epoch
    return ended - record.start_time >= STEADY_SECONDS
