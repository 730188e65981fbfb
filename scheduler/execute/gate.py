"""Holds submits back while Slurm accepts no jobs, so that an outage costs Slurm the same however
many units wait.

One submit at a time tests whether the outage is over; the other units send nothing (I10). A unit
whose test has failed goes to the end of the line, so that a unit whose submit always fails is not
the only one that tests.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from scheduler.core.backoff import doubled
from slurmapi import SlurmError

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 15.0
# For this long after a test has begun no other unit tests.
_TRY_SECONDS: Final = 10.0
# Units that are held back return within one second of each other, and the unit that failed after
# them.
_APART_SECONDS: Final = 1.0


class Gate:
    """Open until a submit fails for a reason that concerns all jobs. `why` is the last such
    reason.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._next_at = 0.0
        self.why = ""

    @property
    def is_open(self) -> bool:
        """Whether every unit may submit."""
        return not self._failures

    def admit(self) -> float:
        """0 if the caller may submit now, otherwise after how many seconds to ask again."""
        if not self._failures:
            return 0.0
        now = self._clock()
        if now < self._next_at:
            return self._next_at - now + _some_of(_APART_SECONDS)
        self._next_at = now + _TRY_SECONDS
        return 0.0

    def shut(self, error: SlurmError) -> float:
        """Close the gate, because a submit has failed. Returns after how many seconds its unit may
        try again, behind the others.
        """
        pause = doubled(_FIRST_SECONDS, self._failures, longest_seconds=_LONGEST_SECONDS)
        pause = max(pause, error.retry_after or 0.0)
        self._failures += 1
        self._next_at = self._clock() + pause
        self.why = str(error)
        return pause + _APART_SECONDS + _some_of(_APART_SECONDS)

    def refused(self) -> None:
        """Let the next unit test at once: a submit was refused, perhaps for a reason that concerns
        that job alone.
        """
        self._next_at = self._clock()

    def open(self) -> None:
        """Open the gate, because Slurm has accepted a job."""
        self._failures = 0


def _some_of(seconds: float) -> float:
    return seconds * random.random()  # noqa: S311 - spreads units that wait
