"""Parts of a process that stands by: they begin when all is ready, and not before."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from scheduler.service.app import _after


async def test_part_begins_once_all_is_ready() -> None:
    leads, synced, begun = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def part() -> None:
        begun.set()

    task = asyncio.create_task(_after(part, leads.wait, synced.wait))
    for event in (synced, leads):
        await asyncio.sleep(0)
        assert not begun.is_set()
        event.set()
    await task
    assert begun.is_set()


async def test_part_that_never_began_ends_without_a_trace() -> None:
    """A coroutine that was made and not awaited would warn of itself."""
    never = asyncio.Event()

    async def part() -> None:
        raise AssertionError("it is not time")

    task = asyncio.create_task(_after(part, never.wait, never.wait))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
