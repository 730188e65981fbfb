"""Reports changes that come all the time at intervals, not singly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

# After such a change all pods that wait for it get another pass: those that no Node could take,
# or those that wait for a claim.
_AGAIN_SECONDS: Final = 3.0

T = TypeVar("T")


async def report_changes(taken: Callable[[], T | None], on_change: Callable[[T], None]) -> None:
    """Call `on_change` with what has changed since the last time, if anything has. `taken` returns
    that, or what is false if nothing has, and afterwards it counts as told. Never returns; cancel
    it to end it.
    """
    while True:
        await asyncio.sleep(_AGAIN_SECONDS)
        if changes := taken():
            on_change(changes)
