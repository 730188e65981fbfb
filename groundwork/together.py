"""Several requests at once, all of which are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

T = TypeVar("T")


async def together(requests: Iterable[Awaitable[T]]) -> list[T]:
    """The answers to all of them. If some fail, the first error is raised once all have ended."""
    results = await asyncio.gather(*requests, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [it for it in results if not isinstance(it, BaseException)]
