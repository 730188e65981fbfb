"""What a write needs, so that a process that no longer leads changes nothing."""

from __future__ import annotations

from collections.abc import Callable

Permit = Callable[[], float]
"""Returns the seconds within which the last byte of a write must have been sent. With 0 or less, no
write may be sent.
"""
