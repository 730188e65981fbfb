"""Keeps submits back while Slurm takes none, so that an outage costs it the same whoever waits.

One try at a time tells whether it is over; units that are kept back ask nothing (I10). The unit
whose try has failed comes last, so that one whose submit never ends well is not the only one to
try.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from scheduler.core.backoff import doubled
from slurmapi import SlurmError

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 15.0
# The one who tries has this long before the next one may.
_TRY_SECONDS: Final = 10.0
# Those that are kept back come within a second of each other, and the one that failed after them.
_APART_SECONDS: Final = 1.0


class Gate:
    """Open until a submit fails for a reason that concerns all. `why` is the last such reason."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._next_at = 0.0
        self.why = ""

    @property
    def is_open(self) -> bool:
        """Whether everybody may submit."""
        return not self._failures

    def admit(self) -> float:
        """0 for the caller who may submit now; any other is told in how many seconds to ask."""
        if not self._failures:
            return 0.0
        now = self._clock()
        if now < self._next_at:
            return self._next_at - now + _some_of(_APART_SECONDS)
        self._next_at = now + _TRY_SECONDS
        return 0.0

    def shut(self, error: SlurmError) -> float:
        """A submit failed; gives the seconds until its unit may try again, as the last one."""
        pause = doubled(_FIRST_SECONDS, self._failures, longest_seconds=_LONGEST_SECONDS)
        pause = max(pause, error.retry_after or 0.0)
        self._failures += 1
        self._next_at = self._clock() + pause
        self.why = str(error)
        return pause + _APART_SECONDS + _some_of(_APART_SECONDS)

    def refused(self) -> None:
        """A submit was refused, maybe for a reason of that job alone: the next one tells more."""
        self._next_at = self._clock()

    def open(self) -> None:
        """A submit was answered, be it with a no that only its job can be to blame for."""
        self._failures = 0


def _some_of(seconds: float) -> float:
    return seconds * random.random()  # noqa: S311 - parts those that wait
