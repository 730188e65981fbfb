"""Lets long steps of many tasks run one by one, with turns for all other tasks in between.

A task that pauses after each few milliseconds is a good neighbour. Fifty of these together are not:
in each turn of the event loop every one of them runs for a few milliseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary


class LongTurns:
    """At most one task begins a long step in a turn of the event loop. Tasks of one line wait for
    each other first, so a line with many tasks delays the task of another line by one step.
    """

    def __init__(self) -> None:
        self._all = asyncio.Lock()
        self._lines: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def next(self, line: Hashable) -> None:
        """Return when it is the caller's turn: until its next `await` it may take some
        milliseconds.
        """
        own = self._lines.get(line)
        if own is None:
            self._lines[line] = own = asyncio.Lock()
        async with own, self._all:
            await asyncio.sleep(0)
