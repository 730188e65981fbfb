"""Pauses that double with each failure, up to a longest one."""

from __future__ import annotations

from typing import Final

# Beyond this a pause is the longest one anyway, and a float would overflow in the end.
_MOST_DOUBLINGS: Final = 64


def doubled(first_seconds: float, failures: int, *, longest_seconds: float) -> float:
    """The pause after so many failures before this one: `first_seconds` after none."""
    return min(first_seconds * 2.0 ** min(failures, _MOST_DOUBLINGS), longest_seconds)
