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
    """`until` is when the pod's time is over by the records of its jobs, in Unix seconds; NO_END if
    that never comes, and None if nothing is known. `tries` counts the jobs that were submitted in
    place of lost ones.
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
    suspended_since: float | None = None
    """When the first look showed that the job was suspended; None if it was not when last seen."""
    suspended_seconds: float = 0.0
    """How long that lasted, as last seen. `until` lacks this time, because Slurm adds it to a job's
    end only when it resumes the job.
    """
    slurm_ahead: float | None = None
    """Slurm's time of day minus the time of the clock that `pinned_since` goes by, which nobody can
    set. None if no record has said when Slurm answered.
    """

    def epoch(self, now: float) -> float | None:
        """The time of day by Slurm's own clock, which `until` goes by; None if not known."""
        return None if self.slurm_ahead is None else now + self.slurm_ahead

    @property
    def end(self) -> float | None:
        """When the pod's time is over, in Unix seconds: `until`, and the time for which the job was
        suspended when it was lost. NO_END and None as for `until`.
        """
        if self.until is None or self.until >= NO_END:
            return self.until
        return self.until + self.suspended_seconds

    def minutes(self, epoch: float) -> int | None:
        """The remaining time in minutes, for a new job; None if not known."""
        if self.end is None:
            return None
        if self.end >= NO_END:
            return YEAR_MINUTES
        return max(1, math.ceil((self.end - epoch) / _SECONDS))

    def is_over(self, epoch: float) -> bool:
        """Whether the time is over."""
        return self.end is not None and epoch >= self.end


def weighed(tenure: Tenure, node: SlurmNode, *, vacant: bool = False, now: float) -> Tenure:
    """What is known after a look at the pod's Slurm node. `vacant` says that jobs of this scheduler
    will soon release some of it, which the record does not count as allocated any more.
    """
    since = tenure.weighed_since
    if since is None or now - tenure.node_at > _BREAK_SECONDS:
        since = now
    return replace(tenure, node=node, vacant=vacant, node_at=now, weighed_since=since)


def learnt(
    tenure: Tenure,
    record: TaggedJob,
    *,
    now: float,
    at: float,
    epoch: float,
    lived_at: float | None,
) -> Tenure:
    """What is known after a look at the pod's own job, whose answer came `at` that time. `epoch` is
    the time of day by our own clock, for a record that does not tell Slurm's. `lived_at` is when
    Slurm last said that the job had not ended, whether in a look or not.
    """
    tag = record.tag
    tenure = _suspended_until(lived_at, tenure, record)
    if tag is None or record is tenure.source:
        return tenure
    ahead = tenure.slurm_ahead if record.answered_at is None else record.answered_at - at
    epoch = epoch if ahead is None else now + ahead
    pinned = record.state.base is BaseState.PENDING and bool(tag.node)
    short = pinned and record.state_reason == SHORT
    if not _stays_suspended(record, tenure.source):
        tenure = replace(tenure, until=tenure.end, suspended_since=None, suspended_seconds=0.0)
    if record.state.base is BaseState.SUSPENDED and tenure.suspended_since is None:
        tenure = replace(tenure, suspended_since=at)
    return replace(
        tenure,
        slurm_ahead=ahead,
        until=_until(record, tag, tenure),
        tries=0 if _ran_long(record, epoch) else max(tenure.tries, tag.tries),
        pinned_since=(tenure.pinned_since or now) if pinned else None,
        short_since=(tenure.short_since or now) if short else None,
        source=record,
    )


def _suspended_until(lived_at: float | None, tenure: Tenure, record: Job) -> Tenure:
    """The tenure of a job that was still suspended at `lived_at`, if the last look showed it so."""
    since = tenure.suspended_since
    if since is None or lived_at is None or not _is_same_job(record, tenure.source):
        return tenure
    return replace(tenure, suspended_seconds=max(tenure.suspended_seconds, lived_at - since))


def _is_same_job(record: Job, former: Job | None) -> bool:
    return former is not None and former.job_id == record.job_id


def _stays_suspended(record: Job, former: Job | None) -> bool:
    """Whether the job has not been resumed since its former record, if it was suspended then. If
    its end has moved and its limit has not, it was resumed and is suspended once more.
    """
    if former is None or not _is_same_job(record, former):
        return False
    resumed = _has_same_terms(record, former) and record.end_time != former.end_time
    return record.state.ended or (record.state.base is BaseState.SUSPENDED and not resumed)


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
