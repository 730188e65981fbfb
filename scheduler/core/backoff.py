"""Pauses that double with each failure, up to a maximum."""

from __future__ import annotations

from typing import Final

# With more doublings the pause has long reached its maximum, and a float would overflow.
_MOST_DOUBLINGS: Final = 64


def doubled(first_seconds: float, failures: int, *, longest_seconds: float) -> float:
    """The pause after `failures` earlier failures; with 0 it is `first_seconds`."""
    return min(first_seconds * 2.0 ** min(failures, _MOST_DOUBLINGS), longest_seconds)
