"""When an answer of Slurm may have arrived, which can be long before the event loop reads it.

A process may get no CPU for seconds: a CPU limit, a machine that is paused, SIGSTOP. Meanwhile an
answer lies unread in its socket, and what it says grows old. The answer of a slow slurmctld is new
when it comes, however long it took.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

# The loop is expected to be this punctual. What is less late says nothing: a loaded machine delays
# every loop, and the times that count here are of one second and more (`FRESH_SECONDS`).
_TICK_SECONDS: Final = 0.1
_LATE_SECONDS: Final = 0.5


class Arrival:
    """Watches the event loop while a request is under way; `clock` is that loop's, in seconds.

    A context manager. It costs a timer for each request, which rings only if the answer takes
    longer than a tick.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ticked_at = -math.inf
        self._late_since = self._late_until = -math.inf
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._next(self._clock())
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def earliest(self) -> float:
        """The earliest time at which an answer may have arrived that is read now: now, unless the
        loop was held up until a moment ago.
        """
        now = self._clock()
        self._note_delay(now)
        return now if now - self._late_until > _TICK_SECONDS else self._late_since

    def _tick(self) -> None:
        now = self._clock()
        self._note_delay(now)
        self._next(now)

    def _next(self, now: float) -> None:
        self._ticked_at = now
        self._timer = asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)

    def _note_delay(self, now: float) -> None:
        """Note since when the loop has been held up, if the tick is overdue by much."""
        if now - self._ticked_at > _TICK_SECONDS + _LATE_SECONDS:
            self._late_since, self._late_until = self._ticked_at, now
