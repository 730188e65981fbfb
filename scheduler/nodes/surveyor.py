"""Long comparisons of what a pod asks with all Nodes and pods: one at a time, in slices.

With 5000 Nodes and 50 000 pods one comparison takes up to some hundred milliseconds, and a user can
ask for a new one with each pod. All of them together get a share of the loop's time, the namespaces
in turn, so that nobody's wishes and terms delay pods that are compared already, nor those of others
by more than a turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import structlog

log = structlog.get_logger(__name__)

K = TypeVar("K", bound=Hashable)

SLICE_ITEMS: Final = 10_000
"""So many items are compared in one turn of the loop, and one step more: 3 ms (measured)."""
PAUSE_SECONDS: Final = 0.02
"""Between two slices the loop does other work so long: comparisons get a fifth of it."""
MOST_WAITING: Final = 128
"""Comparisons of one namespace that wait, at a few KB each. Pods with further ones ask again."""


@dataclass(slots=True)
class _Request:
    since: float
    by: set[str] = field(default_factory=set)


class Surveyor(Generic[K]):
    """`steps` does the work for a key and yields after each step how many items that took;
    `on_ready` is called with each unit that has asked, when it is done.
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
        self._asked = asyncio.Event()
        self._tokens, self._filled_at = 0.0, float("-inf")
        self.largest = 0
        """The items of the largest slice so far."""

    def ask(self, namespace: str, key: K, unit: str) -> float:
        """Have it done in its turn; says since when it waits. Without a unit nobody is called."""
        lane = self._lanes.setdefault(namespace, OrderedDict())
        if key not in lane and len(lane) >= MOST_WAITING:
            return float("-inf")
        asked = lane.setdefault(key, _Request(self._clock()))
        if unit:
            asked.by.add(unit)
        self._asked.set()
        return asked.since

    def try_spend(self, items: int) -> bool:
        """Whether a comparison of so few items may be done at once, without waiting for its turn.
        All of these together get SLICE_ITEMS in each PAUSE_SECONDS.
        """
        now = self._clock()
        gained = (now - self._filled_at) * SLICE_ITEMS / PAUSE_SECONDS
        self._tokens, self._filled_at = min(float(SLICE_ITEMS), self._tokens + gained), now
        if items > self._tokens:
            return False
        self._tokens -= items
        return True

    async def run(self) -> None:
        """Work for ever; end it by cancelling."""
        while True:
            while self._lanes:
                namespace, key = self._next()
                await self._do(key)
                self._finish(namespace, key)
            self._asked.clear()
            await self._asked.wait()

    def _next(self) -> tuple[str, K]:
        """The first of the namespace whose turn it is, which comes last afterwards."""
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

    def _finish(self, namespace: str, key: K) -> None:
        lane = self._lanes[namespace]
        asked = lane.pop(key)
        if not lane:
            del self._lanes[namespace]
        for unit in asked.by:
            self._on_ready(unit)
