"""Several requests at once, all of which are awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

A = TypeVar("A")
T = TypeVar("T")


async def together(requests: Iterable[Awaitable[T]]) -> list[T]:
    """The answers to all of them. If some fail, the first error is raised once all have ended."""
    results = await asyncio.gather(*requests, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [it for it in results if not isinstance(it, BaseException)]


async def few_at_once(most: int, items: Sequence[A], work: Callable[[A], Awaitable[T]]) -> list[T]:
    """The results of `work` for all items, in their order, with at most `most` under way at once.

    Once one fails, no further item is begun. The first error is raised when those that were begun
    have ended.
    """
    if len(items) == 1:
        return [await work(items[0])]  # without a task of its own
    results: dict[int, T] = {}
    left = iter(enumerate(items))
    failed = False

    async def lane() -> None:
        nonlocal failed
        for index, item in left:
            if failed:
                return
            try:
                results[index] = await work(item)
            except BaseException:
                failed = True
                raise

    await together(lane() for _ in range(min(most, len(items))))
    return [results[index] for index in range(len(items))]
