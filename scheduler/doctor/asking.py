"""Asks servers questions with a time limit, and says on standard error what takes long."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Final, TypeVar

from scheduler.doctor.facts import Unread
from scheduler.doctor.finding import plain
from scheduler.kube.errors import KubeError
from slurmapi import SlurmError

T = TypeVar("T")

# What takes longer than this is said, and said again while it goes on.
_PATIENCE_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.25


class Asker:
    """Each request to the server `who` may take `seconds`. `explain` puts an error into words."""

    def __init__(
        self,
        who: str,
        explain: Callable[[SlurmError | KubeError], Unread],
        *,
        seconds: float,
        progress: Progress,
    ) -> None:
        self._who = who
        self._explain = explain
        self._seconds = seconds
        self._progress = progress

    async def ask(self, what: str, question: Awaitable[T]) -> T | Unread:
        """The answer, or why there is none. `what` is asked for, in words for people."""
        return await self.ask_in_parts(what, self.part(question))

    async def ask_in_parts(self, what: str, question: Awaitable[T]) -> T | Unread:
        """As `ask`, for a question that limits the time of each of its requests by `part`."""
        try:
            with self._progress.waiting(f"{self._who}: {what}"):
                return await question
        except TimeoutError:
            limit = f"{self._who} does not answer within {self._seconds:g} s"
            return Unread(f"{limit} (asked for {what})", "timeout")
        except (SlurmError, KubeError) as error:
            return self._explain(error)

    async def part(self, request: Awaitable[T]) -> T:
        """The answer to one request. Raises TimeoutError."""
        async with asyncio.timeout(self._seconds):
            return await request


class Progress:
    """What is waited for; `say` gets a line about it after two seconds, and every two seconds."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._waited: dict[str, float] = {}

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Within the block it is waited for."""
        self._waited[what] = asyncio.get_running_loop().time()
        try:
            yield
        finally:
            del self._waited[what]

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Within the block progress is shown."""
        showing = asyncio.create_task(self._show(), name="progress")
        try:
            yield
        finally:
            showing.cancel()
            with suppress(asyncio.CancelledError):
                await showing

    async def _show(self) -> None:
        said_at = float("-inf")
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = asyncio.get_running_loop().time()
            waited = {it: now - since for it, since in self._waited.items()}
            long = [it for it, seconds in waited.items() if seconds >= _PATIENCE_SECONDS]
            if long and now - said_at >= _PATIENCE_SECONDS:
                self._say(f"waiting for {plain('; '.join(long))} ({max(waited.values()):.0f} s)")
                said_at = now
