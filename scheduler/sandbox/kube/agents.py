"""Runs the agents of a cluster, which are its kubelets and controllers, in one loop.

Each agent is a reconciler. It says which keys a change concerns, and brings one key at a time to
its wanted state. Reconciling is synchronous, so nothing else happens during it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from heapq import heappop, heappush
from typing import Protocol

from scheduler.sandbox.kube.errors import ApiError
from scheduler.sandbox.kube.store import Change, Store

Key = tuple[str, ...]

RETRY_SECONDS = 0.5
BREATHE_EVERY = 20  # reconciliations before requests get a turn


class Reconciler(Protocol):
    """One kind of agent."""

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """The keys that must be reconciled because of a change."""
        ...

    def reconcile(self, key: Key) -> float | None:
        """Act on a key. Returns the seconds until it must be reconciled again; None if only a
        change requires that.
        """
        ...


Item = tuple[int, Key]


class Agents:
    """Runs reconcilers while `serving` is set; without the API server they can do nothing."""

    def __init__(
        self, store: Store, reconcilers: Sequence[Reconciler], *, serving: asyncio.Event
    ) -> None:
        self._reconcilers = reconcilers
        self._serving = serving
        self._ready: dict[Item, None] = {}  # a set that keeps its order
        self._due: dict[Item, float] = {}
        self._timers: list[tuple[float, Item]] = []
        self._wake = asyncio.Event()
        store.observe(self._observe)

    async def run(self) -> None:
        """Run the reconcilers. Never returns; cancel it to end it."""
        while True:
            await self._serving.wait()
            self._promote()
            if self._ready:
                self._work()
                await asyncio.sleep(0)
            else:
                await self._sleep()

    def _observe(self, storage: str, change: Change) -> None:
        for index, reconciler in enumerate(self._reconcilers):
            for key in reconciler.concerns(storage, change):
                self._ready[index, key] = None
        if self._ready:
            self._wake.set()

    def _work(self) -> None:
        for item in list(self._ready)[:BREATHE_EVERY]:
            del self._ready[item]
            index, key = item
            try:
                again = self._reconcilers[index].reconcile(key)
            except ApiError:
                again = RETRY_SECONDS
            if again is not None:
                self._schedule(item, again)

    def _schedule(self, item: Item, seconds: float) -> None:
        at = asyncio.get_running_loop().time() + seconds
        if at < self._due.get(item, float("inf")):
            self._due[item] = at
            heappush(self._timers, (at, item))

    def _promote(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._timers and self._timers[0][0] <= now:
            at, item = heappop(self._timers)
            if self._due.get(item) == at:
                del self._due[item]
                self._ready[item] = None

    async def _sleep(self) -> None:
        self._wake.clear()
        until = self._timers[0][0] if self._timers else None
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._wake.wait()
