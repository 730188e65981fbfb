"""Long loops that let the event loop do other work in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from typing import TypeVar

T = TypeVar("T")


async def with_pauses(items: Iterable[T], *, every: int) -> AsyncGenerator[T]:
    """The items. After each `every` of them, other tasks get a turn: pass a copy of a collection
    that they may change.
    """
    for number, item in enumerate(items, 1):
        yield item
        if number % every == 0:
            await asyncio.sleep(0)
