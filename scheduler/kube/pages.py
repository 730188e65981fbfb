"""The pages of a list, for commands that read it once. Pods may have megabytes, and a page of them
hundreds, so while objects are large, fewer are asked for at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import TypeVar

from scheduler.kube.errors import KubeTooLarge
from scheduler.kube.reflector import FEWER, MOST_PAGE_BYTES
from scheduler.kube.wire import PAGE_SIZE, ItemList

T = TypeVar("T")

Ask = Callable[[Mapping[str, str | int]], Awaitable[bytes]]
"""Asks for a page by a query. Raises KubeError: KubeTooLarge for more than MOST_PAGE_BYTES."""


async def pages(
    ask: Ask, decode: Callable[[bytes], ItemList[T]], *, query: Mapping[str, str | int]
) -> AsyncGenerator[ItemList[T]]:
    """One page after the other. Raises KubeError, KubeTooLarge if a single object is too large."""
    asked, limit = dict(query), PAGE_SIZE
    while True:
        try:
            body = await ask(asked | {"limit": limit})
        except KubeTooLarge:
            if limit == 1:
                raise
            limit = max(1, limit // FEWER)
            continue
        page = decode(body)
        yield page
        if not page.metadata.continue_:
            return
        asked["continue"] = page.metadata.continue_
        if len(body) < MOST_PAGE_BYTES // FEWER:
            limit = min(PAGE_SIZE, limit * FEWER)
