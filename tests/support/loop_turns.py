"""Counts how often another task gets a turn of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class LoopTurns:
    """How many turns the other task has had."""

    count: int = 0


@asynccontextmanager
async def beside() -> AsyncIterator[LoopTurns]:
    """Run a task that does nothing but count its turns."""
    turns = LoopTurns()

    async def other() -> None:
        while True:
            turns.count += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    try:
        yield turns
    finally:
        task.cancel()
