"""`--watch`: shows each change until the user has seen enough."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from scheduler.kube.errors import KubeError
from scheduler.view.listing import Listing
from scheduler.view.printing import put
from scheduler.view.row import Row, State
from scheduler.view.safe_text import shown

_REPAINT_SECONDS: Final = 1.0
# Ages grow although nothing changes.
_LONGEST_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 30.0
_CLEAR: Final = "\x1b[H\x1b[J"


async def print_changes(
    listing: Listing, *, takes: Callable[[Row | None], bool], text: Callable[[Row], str]
) -> None:
    """Print the new row for each change of one that is shown, before or after it; never returns.
    Raises KubeError, ViewError and OSError.
    """
    async with aclosing(_followed(listing)) as changes:
        async for old, new in changes:
            if old != new and (takes(old) or takes(new)):
                last = new or (old and replace(old, state=State.GONE))
                put(text(last) if last else "")


async def repaint(listing: Listing, paint: Callable[[], str]) -> None:
    """Keep the screen up to date; never returns. Raises KubeError, ViewError and OSError."""
    changed = asyncio.Event()

    async def follow() -> None:
        async with aclosing(_followed(listing)) as changes:
            async for old, new in changes:
                if old != new:
                    changed.set()

    async def show() -> None:
        while True:
            changed.clear()
            put(_CLEAR + paint())
            await asyncio.sleep(_REPAINT_SECONDS)
            await _at_most(changed, _LONGEST_SECONDS)

    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(follow(), name="follow")
            group.create_task(show(), name="show")
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _at_most(changed: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
    except TimeoutError:
        pass


async def _followed(listing: Listing) -> AsyncGenerator[tuple[Row | None, Row | None]]:
    """Each change, without end. If the server does not answer, it is asked again with growing
    pauses, and this is said once. Raises KubeError if asking again does not help.
    """
    pause = 0.0
    while True:
        try:
            async with aclosing(listing.changes()) as changes:
                async for change in changes:
                    pause = 0.0
                    yield change
            await asyncio.sleep(_REPAINT_SECONDS)  # never a list at once after another
            before = listing.rows
            await listing.fill()
            for change in _differences(before, listing.rows):
                yield change
        except KubeError as error:
            if not error.retryable:
                raise
            if not pause:
                sys.stderr.write(f"asking again: {shown(str(error))}\n")
            pause = min(max(2 * pause, _PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)


def _differences(
    before: dict[str, Row], after: dict[str, Row]
) -> list[tuple[Row | None, Row | None]]:
    return [(before.get(uid), after.get(uid)) for uid in {**before, **after}]
