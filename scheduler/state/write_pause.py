"""Pauses between two tries of what the API server refuses to have written on a pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler.core.backoff import doubled

_FIRST_SECONDS: Final = 5.0
_LONGEST_SECONDS: Final = 300.0


@dataclass(slots=True)
class WritePause:
    """Of one pod. Each refusal in a row doubles the pause."""

    until: float = float("-inf")
    _refusals: int = 0

    def refused(self, now: float) -> float:
        """One refusal more; gives the seconds until the next try."""
        seconds = doubled(_FIRST_SECONDS, self._refusals, longest_seconds=_LONGEST_SECONDS)
        self._refusals += 1
        self.until = now + seconds
        return seconds

    def taken(self) -> None:
        """The server has taken a write: nothing is held back any more."""
        self._refusals, self.until = 0, float("-inf")
