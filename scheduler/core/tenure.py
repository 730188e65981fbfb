"""The time that Slurm gave a pod, remembered while one job replaces another.

A job that replaces a lost one gets the remaining time and no more, so a user gains nothing by
killing each placeholder's script. All of it comes from records of our own jobs, which only
administrators can write, or from the kubelet.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.core.endings import warned
from scheduler.core.owner_tag import NO_END, OwnerTag
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState, Job, SlurmNode

MOST_TRIES: Final = 5
"""How many new jobs are submitted for a pod's node before the pod must go: each try costs Slurm a
job.
"""
FIRST_TRIES: Final = 3
"""How many of these jobs go ahead of all others in the queue."""
STEADY_SECONDS: Final = 3600.0
"""A job that has run for this long was no failed try, so the count starts again."""
YEAR_MINUTES: Final = 365 * 24 * 60
"""The time limit of a new job if the pod's time has no end. Without one the job might get a default
limit. Slurm itself counts a job without a limit as one of a year (measured on 26.05.5).
"""
SHORT: Final = "Resources"
"""The reason why a job waits if resources are missing that other jobs hold."""
_BREAK_SECONDS: Final = 300.0
"""If the record of the node was not read for this long, a job of the pod's held it meanwhile."""
_SECONDS: Final = 60


class Tenure(msgspec.Struct, frozen=True, kw_only=True):
    """`until` is when the pod's time is over, in Unix seconds; NO_END if that never comes, and None
    if nothing is known. `tries` counts the jobs that were submitted in place of lost ones.
    """

    until: float | None = None
    tries: int = 0
    pinned_since: float | None = None
    """Since when a job that is pinned to the pod's node waits."""
    short_since: float | None = None
    """Since when each look at that job has shown the reason `SHORT`; None if the last has not."""
    lost_young: bool = False
    """Whether Slurm itself has lost the job: it was missing less than MinJobAge after it was last
    seen alive, and Slurm remembers ended jobs at least that long.
    """
    node: SlurmNode | None = None
    """The record of the pod's Slurm node, as read at `node_at`, without the jobs of this scheduler
    that will soon release it.
    """
    vacant: bool = False
    """Whether there were such jobs."""
    node_at: float = 0.0
    weighed_since: float | None = None
    """Since when that record has been read again and again, because no job of the pod's holds the
    node; None if it was not read.
    """
    source: TaggedJob | None = None
    """The job's record that this was last updated from."""
    slurm_ahead: float | None = None
    """Slurm's time of day minus the time of the clock that `pinned_since` goes by, which nobody can
    set. None if no record has said when Slurm answered.
    """

    def epoch(self, now: float) -> float | None:
        """The time of day by Slurm's own clock, which `until` goes by; None if not known."""
        return None if self.slurm_ahead is None else now + self.slurm_ahead

    def minutes(self, epoch: float) -> int | None:
        """The remaining time in minutes, for a new job; None if not known."""
        if self.until is None:
            return None
        if self.until >= NO_END:
            return YEAR_MINUTES
        return max(1, math.ceil((self.until - epoch) / _SECONDS))

    def is_over(self, epoch: float) -> bool:
        """Whether the time is over."""
        return self.until is not None and epoch >= self.until


def weighed(tenure: Tenure, node: SlurmNode, *, vacant: bool = False, now: float) -> Tenure:
    """What is known after a look at the pod's Slurm node. `vacant` says that jobs of this scheduler
    will soon release some of it, which the record does not count as allocated any more.
    """
    since = tenure.weighed_since
    if since is None or now - tenure.node_at > _BREAK_SECONDS:
        since = now
    return replace(tenure, node=node, vacant=vacant, node_at=now, weighed_since=since)


def learnt(tenure: Tenure, record: TaggedJob, *, now: float, at: float, epoch: float) -> Tenure:
    """What is known after a look at the pod's own job, whose answer came `at` that time. `epoch` is
    the time of day by our own clock, for a record that does not tell Slurm's.
    """
    tag = record.tag
    if tag is None or record is tenure.source:
        return tenure
    ahead = tenure.slurm_ahead if record.answered_at is None else record.answered_at - at
    epoch = epoch if ahead is None else now + ahead
    pinned = record.state.base is BaseState.PENDING and bool(tag.node)
    short = pinned and record.state_reason == SHORT
    return replace(
        tenure,
        slurm_ahead=ahead,
        until=_until(record, tag, tenure),
        tries=0 if _ran_long(record, epoch) else max(tenure.tries, tag.tries),
        pinned_since=(tenure.pinned_since or now) if pinned else None,
        short_since=(tenure.short_since or now) if short else None,
        source=record,
    )


def _until(record: Job, tag: OwnerTag, former: Tenure) -> float | None:
    """The end by the job's own record, since an operator may have changed its limit, or removed it.
    Limits are whole minutes, so a job that was submitted for the remaining time may end a little
    later than the pod's time.
    """
    if not record.start_time or not _has_held_a_node(record):
        return tag.until or former.until
    if record.state.ended and _has_same_terms(record, former.source):
        return former.until  # the record of an ended job no longer says when it was to end
    if record.time_limit_minutes is None:
        return NO_END
    end = _end_of(record, record.start_time + _SECONDS * record.time_limit_minutes)
    rounded_up = tag.until and 0 <= end - tag.until <= 2 * _SECONDS
    return tag.until if rounded_up else end


def _end_of(record: Job, by_limit: int) -> int:
    """When the job reaches its limit. Slurm adds the time for which it was suspended."""
    if record.end_time is None or record.state.ended or warned(record):
        return by_limit
    return record.end_time


def _has_same_terms(record: Job, former: Job | None) -> bool:
    """Whether this is the same run of the same job, whose limit was not changed since."""
    return former is not None and _terms(record) == _terms(former)


def _terms(record: Job) -> tuple[int, int | None, int | None]:
    return record.job_id, record.start_time, record.time_limit_minutes


def _has_held_a_node(record: Job) -> bool:
    """Whether its limit counts: an ended job that never started shows what it would have had."""
    return _has_started(record) and bool(record.nodes or not record.state.ended)


def _has_started(record: Job) -> bool:
    """Whether the job has started; the start time of a waiting job is only a forecast."""
    return record.state.base is not BaseState.PENDING


def _ran_long(record: Job, epoch: float) -> bool:
    if not record.start_time or not _has_started(record):
        return False
    ended = record.end_time if record.state.ended and record.end_time else epoch
    return ended - record.start_time >= STEADY_SECONDS
