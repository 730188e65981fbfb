"""Long work in short turns: the event loop belongs to the scheduler first."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Final

TURN_SECONDS: Final = 0.003
REST_SECONDS: Final = 0.006
"""So work that takes long gets a third of the loop's time at most."""
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
