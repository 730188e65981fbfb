"""Work that anybody may ask for leaves the event loop most of its time, however much is asked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

REST: Final = 2.0
"""A rest is so many times as long as the work: the work gets a third of the time at most."""


class Rests:
    """Pieces of work that come one after the other, each after a rest that is twice as long as the
    last piece, and `longest` seconds at most. `besides` are the seconds that each piece costs
    before and after it.
    """

    def __init__(self, *, besides: float = 0.0, longest: float = math.inf) -> None:
        self._besides = besides
        self._longest = longest
        self._busy = asyncio.Lock()
        self._until = -math.inf

    @asynccontextmanager
    async def next(self) -> AsyncIterator[None]:
        """The next piece is the block. The one after it rests also if this one is cancelled."""
        async with self._busy:
            await asyncio.sleep(max(0.0, self._until - perf_counter()))
            began = perf_counter()
            try:
                yield
            finally:
                ended = perf_counter()
                rest = REST * (ended - began + self._besides)
                self._until = ended + min(rest, self._longest)
