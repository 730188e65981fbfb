"""Runs long comparisons of pods' requirements with all Nodes and pods: one at a time, in slices.

With 5000 Nodes and 50 000 pods one comparison takes up to a few hundred milliseconds, and a user
can cause a new one with each pod. So all comparisons together get a share of the loop's time, and
namespaces take turns. A user's requirements never delay pods that are compared already, and delay
other namespaces by one turn at most.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Final, Generic, TypeVar

import structlog

from groundwork.pauses import in_chunks

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)

SLICE_ITEMS: Final = 10_000
"""Items that are compared in one turn of the loop (one step may exceed it): 3 ms (measured)."""
PAUSE_SECONDS: Final = 0.02
"""How long the loop does other work between two slices: comparisons get a fifth of its time."""
MOST_WAITING: Final = 128
"""How many comparisons of one namespace may wait, at a few KB each. The units of further ones are
called when there is room again.
"""
# How many of them are called after each comparison: some share one, so the next must not wait for
# those alone.
_CALLED_AT_ONCE: Final = 16
# To call so many units takes 5 ms.
_READY_AT_ONCE: Final = 500


@dataclass(slots=True)
class _Request:
    since: float
    by: set[str] = field(default_factory=set)


class Surveyor(Generic[K]):
    """`steps` does the work for a key and yields how many items each step took. `on_ready` is
    called for each unit that has asked, when the work is done.
    """

    def __init__(
        self,
        steps: Callable[[K], Iterator[int]],
        *,
        on_ready: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._steps = steps
        self._on_ready = on_ready
        self._clock = clock
        self._lanes: OrderedDict[str, OrderedDict[K, _Request]] = OrderedDict()
        self._turned_away: OrderedDict[str, dict[str, None]] = OrderedDict()
        self._asked = asyncio.Event()
        self._tokens, self._filled_at = 0.0, float("-inf")
        self.largest = 0
        """The items of the largest slice so far."""

    def ask(self, namespace: str, key: K, unit: str) -> float:
        """Have the work done when its turn comes; returns since when it waits. Without a unit,
        `on_ready` is not called. If too many comparisons wait, it is also called when there is room
        for this one, so that the unit can ask again.
        """
        lane = self._lanes.setdefault(namespace, OrderedDict())
        if key not in lane and len(lane) >= MOST_WAITING:
            if unit:
                self._turned_away.setdefault(namespace, {})[unit] = None
            return float("-inf")
        asked = lane.setdefault(key, _Request(self._clock()))
        if unit:
            asked.by.add(unit)
        self._asked.set()
        return asked.since

    def try_spend(self, items: int) -> bool:
        """Whether a comparison of so few items may be made at once, out of turn. All such
        comparisons together get SLICE_ITEMS in each PAUSE_SECONDS.
        """
        now = self._clock()
        gained = (now - self._filled_at) * SLICE_ITEMS / PAUSE_SECONDS
        self._tokens, self._filled_at = min(float(SLICE_ITEMS), self._tokens + gained), now
        if items > self._tokens:
            return False
        self._tokens -= items
        return True

    async def run(self) -> None:
        """Work for ever; cancel it to stop."""
        while True:
            while self._lanes or self._turned_away:
                if self._lanes:
                    namespace, key = self._next()
                    await self._do(key)
                    await self._finish(namespace, key)
                else:
                    await asyncio.sleep(PAUSE_SECONDS)
                self._call_some()
            self._asked.clear()
            await self._asked.wait()

    def _next(self) -> tuple[str, K]:
        """The first key of the namespace whose turn it is; that namespace then goes to the end."""
        namespace = next(iter(self._lanes))
        self._lanes.move_to_end(namespace)
        return namespace, next(iter(self._lanes[namespace]))

    async def _do(self, key: K) -> None:
        spent = 0
        try:
            for items in self._steps(key):
                spent += items
                self.largest = max(self.largest, spent)
                if spent >= SLICE_ITEMS:
                    spent = 0
                    await asyncio.sleep(PAUSE_SECONDS)
        except Exception:
            log.exception("pods and Nodes could not be compared")
        await asyncio.sleep(PAUSE_SECONDS)

    async def _finish(self, namespace: str, key: K) -> None:
        lane = self._lanes[namespace]
        asked = lane.pop(key)
        if not lane:
            del self._lanes[namespace]
        async for some in in_chunks(asked.by, size=_READY_AT_ONCE):
            for unit in some:
                self._on_ready(unit)

    def _call_some(self) -> None:
        """Call a few of the units that were turned away, of namespaces that have room, in turns."""
        free = [it for it in self._turned_away if len(self._lanes.get(it, ())) < MOST_WAITING]
        for namespace in islice(cycle(free), _CALLED_AT_ONCE):
            units = self._turned_away.get(namespace)
            if units is None:
                continue
            unit = next(iter(units))
            del units[unit]
            if units:
                self._turned_away.move_to_end(namespace)
            else:
                del self._turned_away[namespace]
            self._on_ready(unit)
