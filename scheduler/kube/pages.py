"""The pages of a list. Pods may have megabytes, and a page of them hundreds, so while objects are
large, fewer are asked for at once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Final, TypeVar

from scheduler.kube.errors import KubeTooLarge
from scheduler.kube.wire import PAGE_SIZE, ItemList

T = TypeVar("T")

Ask = Callable[[Mapping[str, str | int]], Awaitable[bytes]]
"""Asks for a page by a query. Raises KubeError: KubeTooLarge for more than MOST_PAGE_BYTES."""

# An answer with more bytes is not read: it takes memory once as pieces and once as a whole, and
# some lists are made at the same time. A page of ordinary pods has a few megabytes.
MOST_PAGE_BYTES: Final = 16 * 1024 * 1024
_FEWER: Final = 10  # by how much a page that is too large is divided, and a small one may grow


class PageSize:
    """How many objects the next page may have, as `objects`."""

    def __init__(self) -> None:
        self.objects = PAGE_SIZE

    def shrink(self) -> bool:
        """The last page was too large. Returns whether the next one may have fewer objects."""
        former, self.objects = self.objects, max(1, self.objects // _FEWER)
        return self.objects < former

    def came(self, size: int) -> None:
        """A page of so many bytes has come. The next one may have more objects if it was small."""
        if size < MOST_PAGE_BYTES // _FEWER:
            self.objects = min(PAGE_SIZE, self.objects * _FEWER)


async def pages(
    ask: Ask, decode: Callable[[bytes], ItemList[T]], *, query: Mapping[str, str | int]
) -> AsyncGenerator[ItemList[T]]:
    """One page after the other, for commands that read a list once. Raises KubeError, KubeTooLarge
    if a single object is too large.
    """
    asked, size = dict(query), PageSize()
    while True:
        try:
            body = await ask(asked | {"limit": size.objects})
        except KubeTooLarge:
            if not size.shrink():
                raise
            continue
        page = decode(body)
        yield page
        if not page.metadata.continue_:
            return
        asked["continue"] = page.metadata.continue_
        size.came(len(body))
