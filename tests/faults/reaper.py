"""Kills the scheduler's process at its writes, as a fault that the proxies play."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from typing import Final, NamedTuple

from tests.crash.operations import write_operations
from tests.faults.exchange import Exchange, UpstreamGoneError
from tests.faults.play import Play

BY_POLICY: Final = {"delete": "delete_pod", "budget": "evict_pod"}
"""The kind of write by which pods go, by `--eviction-policy`."""


def kinds_of_election() -> frozenset[str]:
    """All kinds of writes by which a process becomes the leader and stays it."""
    return frozenset(it for it in write_operations() if it.endswith("_lease"))


def kinds_of_work(policy: str) -> frozenset[str]:
    """All other kinds of writes with that eviction policy."""
    others = {kind for name, kind in BY_POLICY.items() if name != policy}
    return write_operations() - kinds_of_election() - others


class Moment(StrEnum):
    """When the process is killed."""

    BEFORE = "before it is sent"
    SENT = "sent, not answered"
    DONE = "done, its answer under way"
    KNOWN = "answered"


class Point(NamedTuple):
    """Where it is killed."""

    kind: str
    moment: Moment

    def __str__(self) -> str:
        return f"{self.kind}: {self.moment.value}"


class Reaper:
    """Kills the process `pid` once each time it is armed, at one of the points still `due`."""

    def __init__(self, play: Play, *, pid: Callable[[], int]) -> None:
        self.due: Counter[Point] = Counter()
        self.killed: Counter[Point] = Counter()
        self.dead, self.revived = threading.Event(), threading.Event()
        self._pid = pid
        self._armed = self._over = False
        self._life = 0
        self._sent: set[asyncio.Future[None]] = set()
        play.add(self.deal, times=None)

    def __str__(self) -> str:
        return ", ".join(f"{point} ({times})" for point, times in sorted(self.killed.items()))

    def arm(self) -> None:
        """Let the process be killed from now on."""
        self.dead.clear()
        self._life += 1
        self._armed = not self._over
        self.revived.set()

    def disarm(self) -> None:
        """Do not kill it from now on."""
        self._over, self._armed = True, False

    @property
    def kinds_due(self) -> set[str]:
        """The kinds of write at which it is still to be killed."""
        return {point.kind for point, times in self.due.items() if times > 0}

    @property
    def settled(self) -> bool:
        """Whether every request that was on its way at a kill has been carried out."""
        return all(it.done() for it in self._sent)

    def missed(self, points: Iterable[Point]) -> list[str]:
        """Those of the points at which the process was never killed."""
        return [str(it) for it in points if not self.killed[it]]

    async def deal(self, it: Exchange) -> None:
        """Handle one request: pass it on, or kill the process at it."""
        point, life = self._chosen(it), self._life
        if point is None:
            await it.relay()
            return
        match point.moment:
            case Moment.BEFORE:
                self._kill(point, life)
            case Moment.SENT:
                # The connection ends with the process, but the request is still carried out.
                sent = asyncio.ensure_future(_done(it))
                self._sent.add(sent)
                self._kill(point, life)
                await asyncio.shield(sent)
            case Moment.DONE:
                await it.forward()
                self._kill(point, life)
            case Moment.KNOWN:
                await it.relay()
                self._kill(point, life)
                return
        it.reset()

    def _chosen(self, it: Exchange) -> Point | None:
        """The point of that write at which most kills are still due."""
        if not self._armed or it.write is None:
            return None
        points = (Point(it.name, moment) for moment in Moment)
        due = (point for point in points if self.due[point] > 0)
        return max(due, key=lambda point: self.due[point], default=None)

    def _kill(self, point: Point, life: int) -> None:
        if not self._armed or life != self._life:
            return  # another of its writes was quicker
        self._armed = False
        self.due[point] -= 1
        self.killed[point] += 1
        self.revived.clear()
        self.dead.set()
        os.kill(self._pid(), signal.SIGKILL)


async def _done(it: Exchange) -> None:
    """Let the server carry out the request, if it can still be reached once the process is gone.

    It uses a connection of its own, because the client's ends with the client.
    """
    alone = replace(it, upstream=None)
    try:
        with suppress(UpstreamGoneError):
            await alone.forward()
    finally:
        if alone.upstream is not None:
            alone.upstream[1].transport.abort()
