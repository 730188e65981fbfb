"""How long a request may have waited until an event loop read it."""

from __future__ import annotations

import asyncio
from typing import Final

_EVERY: Final = 0.1
_LATE: Final = 0.5
"""A tick that is later than this says that the loop had more to do than it could."""
_QUIET: Final = 1.0
"""For so long after a late tick there may still be requests that have waited since before it."""


class LoopDelay:
    """Watches the loop by a tick. Models run in the process of the tests: beside other work on the
    same cores, requests have waited in their sockets for ten seconds.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._last = 0.0
        self._behind_since = self._behind_until = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin; in the loop's own thread."""
        self._last = self._loop.time()
        self._timer = self._loop.call_later(_EVERY, self._tick)

    def seconds(self) -> float:
        """How long ago a request may have arrived whose turn is now."""
        now = self._loop.time()
        is_behind = now - self._behind_until < _QUIET
        return now - (self._behind_since if is_behind else self._last)

    def stop(self) -> None:
        """End; in the loop's own thread."""
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        now = self._loop.time()
        if now - self._last > _EVERY + _LATE:
            if self._last - self._behind_until >= _QUIET:
                self._behind_since = self._last
            self._behind_until = now
        self._last = now
        self._timer = self._loop.call_later(_EVERY, self._tick)
