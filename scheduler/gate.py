"""Keeps submits back while Slurm takes none, so that an outage costs it the same whoever waits.

One try at a time tells whether it is over; units that are kept back ask nothing (I10).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from scheduler.backoff import doubled
from slurmapi import SlurmError

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 15.0
# The one who tries has this long before the next one may.
_TRY_SECONDS: Final = 10.0


class Gate:
    """Open until a submit fails for a reason that concerns all. `why` is the last such reason."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._next_at = 0.0
        self.why = ""

    def admit(self) -> float:
        """0 for the caller who may submit now; any other is told in how many seconds to ask."""
        if not self._failures:
            return 0.0
        now = self._clock()
        if now < self._next_at:
            return self._next_at - now + random.random()  # noqa: S311 - parts those that wait
        self._next_at = now + _TRY_SECONDS
        return 0.0

    def shut(self, error: SlurmError) -> float:
        """A submit failed; gives the seconds until the next one may be tried."""
        pause = doubled(_FIRST_SECONDS, self._failures, longest_seconds=_LONGEST_SECONDS)
        pause = max(pause, error.retry_after or 0.0)
        self._failures += 1
        self._next_at = self._clock() + pause
        self.why = str(error)
        return pause

    def open(self) -> None:
        """A submit was answered, be it with a no for that job alone."""
        self._failures = 0
