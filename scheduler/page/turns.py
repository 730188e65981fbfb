"""Long work in short turns: the event loop belongs to the scheduler first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

from groundwork.rests import REST, Rests

TURN_SECONDS: Final = 0.003
REST_SECONDS: Final = REST * TURN_SECONDS
_AROUND_SECONDS: Final = 0.0003
"""What an answer takes apart from its making: to read the question, to know who asks, and to send
it (measured).
"""
_ITEMS: Final = 16
"""The most that is done without a look at the clock; an item takes 0.1 ms at most (measured)."""


class ShortTurns:
    """Call `item` after each item of the work, or `part` after many."""

    def __init__(self) -> None:
        self._began = perf_counter()
        self._items = 0

    async def item(self) -> None:
        """Let others run if the turn is over."""
        self._items += 1
        if self._items % _ITEMS == 0:
            await self.part()

    async def part(self) -> None:
        """As `item`, after a part of the work that is as long as many items."""
        if perf_counter() - self._began > TURN_SECONDS:
            await asyncio.sleep(REST_SECONDS)
            self._began = perf_counter()


class TurnsInTurn:
    """Pieces of work that come one after the other. Each is too short to rest in the middle of it,
    but there may be many: so each begins only after a rest as well.
    """

    def __init__(self) -> None:
        self._rests = Rests(besides=_AROUND_SECONDS, longest=REST_SECONDS)

    @asynccontextmanager
    async def next(self) -> AsyncIterator[ShortTurns]:
        """The next piece of work is the block."""
        async with self._rests.next():
            yield ShortTurns()
