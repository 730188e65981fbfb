"""How many looks at jobs may be made now, if there may be only so many a second."""

from __future__ import annotations

from typing import Final

_SAVED_SECONDS: Final = 4.0


class LookAllowance:
    """A budget of this many looks a second. Unused looks are saved for a few seconds only."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._since = 0.0

    def take(self, now: float) -> int:
        """How many looks may be made now."""
        number = int((now - self._since) * self._per_second)
        if number:
            self._since = now
        return min(number, max(1, int(self._per_second * _SAVED_SECONDS)))
