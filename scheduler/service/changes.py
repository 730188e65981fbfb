"""Reports changes that come all the time at intervals, not singly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

# After such a change all pods that wait for it get another pass: those that no Node could take,
# or those that wait for a claim.
_AGAIN_SECONDS: Final = 3.0


async def report_changes(count: Callable[[], int], on_change: Callable[[], None]) -> None:
    """Call `on_change` whenever `count`, the number of changes so far, has changed. Never returns;
    cancel it to end it.
    """
    changes = 0
    while True:
        await asyncio.sleep(_AGAIN_SECONDS)
        former, changes = changes, count()
        if former != changes:
            on_change()
