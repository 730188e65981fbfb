"""Long loops that let the event loop do other work in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from time import thread_time
from typing import Final, TypeVar

SLICE_SECONDS: Final = 0.005
"""How much CPU time a slice of a long loop takes."""

T = TypeVar("T")


async def with_pauses(items: Iterable[T], *, every: int) -> AsyncGenerator[T]:
    """The items. After each `every` of them, other tasks get a turn: pass a copy of a collection
    that they may change.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % every == 0:
            await asyncio.sleep(0)


async def in_chunks(items: Iterable[T], *, size: int) -> AsyncGenerator[Sequence[T]]:
    """Parts of so many items. Between two of them, other tasks get a turn. For a loop that does so
    little with each item that `with_pauses` would double its cost.
    """
    copy = tuple(items)
    for start in range(0, len(copy), size):
        if start:
            await asyncio.sleep(0)
        yield copy[start : start + size]


async def _one_turn() -> None:
    await asyncio.sleep(0)


async def in_slices(
    items: Iterable[T],
    *,
    seconds: float = SLICE_SECONDS,
    pause: Callable[[], Awaitable[None]] = _one_turn,
) -> AsyncGenerator[T]:
    """The items. Whenever those since the last pause have taken so many seconds of this thread's
    CPU time, other tasks get a turn: for items of which some cost a thousand times more than
    others. Pass a copy of a collection that they may change. `pause` gives other tasks a turn.
    """
    began = thread_time()
    for item in items:
        yield item
        if thread_time() - began >= seconds:
            await pause()
            began = thread_time()
