"""When the next pulse comes: how often Slurm is asked for the states of all placeholders.

The settings `--poll-interval` and `--idle-poll-interval` (`config/settings.py`) say how often. The
interval grows with the number of requests of a pulse, and with the time that Slurm needs.

While there are few jobs, a pulse comes sooner than that if one of them is about to change: quickly.
Requests that were not made are saved for that, so over any longer time there are no more than eight
a second, whatever pods are created and whatever hooks say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Final

from scheduler.core.backoff import doubled
from scheduler.state.units import Placeholder, Units
from slurmapi import BaseState

CHUNK: Final = 1000
"""For this many jobs one request is sent."""

REQUESTS_PER_SECOND: Final = 8.0
SAVED_REQUESTS: Final = 40
"""This many requests that were not made may be made later, for quick pulses."""

# Of the saved requests this many are kept for jobs that Slurm has allocated. Everybody can create
# pods and so have young jobs, but not let Slurm start them.
_KEPT_FOR_STARTS: Final = 20
# Above this many jobs an idle pulse comes more rarely, and none comes quickly, because each costs
# Slurm more.
_FEW_JOBS: Final = 250
_IDLE_SECONDS_OF_MANY: Final = 2.0
# A slow Slurm is asked again only after this many times the duration of the faster of its last two
# answers, and quickly after this many times.
_REST_FACTOR: Final = 2.0
_QUICK_REST_FACTOR: Final = 4.0
_LONGEST_SECONDS: Final = 30.0
# If Slurm has room for a job, it starts it within this time after the submit: batch_sched_delay is
# 3 s by default. The pulse comes this many times as often until then.
YOUNG_SECONDS: Final = 4.0
_OFTEN_WHILE_YOUNG: Final = 4
# A job is CONFIGURING until PrologSlurmctld returns, mostly 17 to 43 ms after it has asked us
# (measured on 26.05.5), and the pod is bound then.
_MADE_READY_SECONDS: Final = 0.4
_MOST_OFTEN: Final = 16


class PulseHurry(IntEnum):
    """Why the next pulse comes sooner than an idle one; the greater, the sooner."""

    NONE = 0
    WAITS = 1
    """A unit has started to wait, or a job may have ended."""
    HINTED = 2
    """Slurm's hooks say that one of our jobs has changed."""


class PulsePace:
    """`fast_seconds` is the interval while pods wait, `idle_seconds` while none does."""

    def __init__(
        self,
        units: Units,
        *,
        leads: Callable[[], bool],
        clock: Callable[[], float],
        fast_seconds: float,
        idle_seconds: float,
    ) -> None:
        self._units = units
        self._leads = leads
        self._clock = clock
        self._fast = fast_seconds
        self._idle = idle_seconds
        self._saved = 0.0
        self._saved_at = -math.inf
        self.hooks_tell = False
        """Whether Slurm's hooks have told the last start, so that no pulse must look for the next.
        """

    def spend(self, requests: int = 1) -> None:
        """Note that Slurm is asked now, by this many requests."""
        self._saved = max(self.saved() - requests, 0.0)
        self._saved_at = self._clock()

    def saved(self) -> float:
        """How many requests that were not made may be made now."""
        since = (self._clock() - self._saved_at) * REQUESTS_PER_SECOND
        return min(self._saved + since, SAVED_REQUESTS)

    def may_ask(self) -> bool:
        """Whether a request may be made now that nobody needs at once."""
        return self.saved() >= 1

    def seconds(self, took: float, *, failures: int, hurry: PulseHurry) -> float:
        """The time from the end of a pulse, which `took` some seconds, to the next. `failures` is
        how many in a row have failed; after a failure nothing makes it come sooner.
        """
        if failures:
            return doubled(self._idle, min(failures, 8), longest_seconds=_LONGEST_SECONDS)
        count = len(self._units.job_ids())
        idle = self._idle if count <= _FEW_JOBS else max(self._idle, _IDLE_SECONDS_OF_MANY)
        wanted = self._fast if hurry is not PulseHurry.NONE or self._waits() else idle
        # Above CHUNK the jobs that run are asked about apart, which may take one request more.
        requests = 1 if count <= CHUNK else 2 + count // CHUNK
        slowest = max(wanted, requests / REQUESTS_PER_SECOND, took * _REST_FACTOR)
        quick = max(self._quick_seconds(count, hurry), took * _QUICK_REST_FACTOR)
        return min(slowest, quick, _LONGEST_SECONDS)

    def _waits(self) -> bool:
        if not self._leads() or self.hooks_tell:
            return False
        return any(it.waiting and it.job is not None for it in self._units)

    def _quick_seconds(self, count: int, hurry: PulseHurry) -> float:
        """The interval of quick pulses; infinite if there is no reason for them."""
        saved, now = self.saved(), self._clock()
        if not self._leads() or count > _FEW_JOBS or not self.may_ask():
            return math.inf
        if hurry is PulseHurry.HINTED:
            return self._fast / _MOST_OFTEN
        if self.hooks_tell:
            return math.inf
        jobs = tuple(self._own_jobs())
        if any(_is_made_ready(job, now) for job in jobs):
            return self._fast / _MOST_OFTEN
        if saved > _KEPT_FOR_STARTS and any(_is_young(job, now) for job in jobs):
            return self._fast / _OFTEN_WHILE_YOUNG
        return math.inf

    def _own_jobs(self) -> Iterator[Placeholder]:
        """All jobs that we have submitted, or found to be ours."""
        for job_id in self._units.job_ids():
            yield from self._units.own_jobs(job_id)


def _is_young(job: Placeholder, now: float) -> bool:
    """Whether it was submitted a moment ago, and may start any time."""
    waits = job.state is None or job.state.base is BaseState.PENDING
    return waits and job.submitted_at > 0 and now < job.submitted_at + YOUNG_SECONDS


def _is_made_ready(job: Placeholder, now: float) -> bool:
    """Whether PrologSlurmctld still runs, and will return soon: the job was allocated a moment
    ago.
    """
    waits = job.state is not None and job.state.configuring
    return waits and now < job.allocated_at + _MADE_READY_SECONDS
