"""When the next pulse comes: how often Slurm is asked for the states of all placeholders.

The settings `--poll-interval` and `--idle-poll-interval` (`config/settings.py`) say how often. The
interval grows with the number of requests of a pulse, and with the time that Slurm needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.core.backoff import doubled
from scheduler.state.units import Units

CHUNK: Final = 1000
"""For so many jobs one request is sent."""

_REQUESTS_PER_SECOND: Final = 8.0
# Above so many jobs an idle pulse comes more rarely, because each costs Slurm more.
_FEW_JOBS: Final = 250
_IDLE_SECONDS_OF_MANY: Final = 2.0
# A slow Slurm is asked again only after this many times the duration of its last answer.
_REST_FACTOR: Final = 2.0
_LONGEST_SECONDS: Final = 30.0


class PulsePace:
    """`fast_seconds` is the interval while pods wait, `idle_seconds` while none does."""

    def __init__(
        self,
        units: Units,
        *,
        leads: Callable[[], bool],
        fast_seconds: float,
        idle_seconds: float,
    ) -> None:
        self._units = units
        self._leads = leads
        self.fast_seconds = fast_seconds
        self._idle = idle_seconds

    def seconds(self, took: float, *, failures: int) -> float:
        """The time from the end of a pulse, which took so long, to the next. `failures` is how many
        in a row have failed.
        """
        if failures:
            return doubled(self._idle, min(failures, 8), longest_seconds=_LONGEST_SECONDS)
        count = len(self._units.job_ids())
        idle = self._idle if count <= _FEW_JOBS else max(self._idle, _IDLE_SECONDS_OF_MANY)
        wanted = self.fast_seconds if self.waits() else idle
        requests = 1 + count // CHUNK
        slowest = max(wanted, requests / _REQUESTS_PER_SECOND, took * _REST_FACTOR)
        return min(slowest, _LONGEST_SECONDS)

    def waits(self) -> bool:
        """Whether news of any job matters soon."""
        return self._leads() and any(it.waiting and it.job is not None for it in self._units)
