"""The queue between the watches and the workers, with client-go's semantics, and levels.

A key is added, worked on by one worker at a time, and marked done. If it is added a thousand times
before a worker takes it, it runs once; if it is added while a worker has it, it runs once more
afterwards (the *dirty* and *processing* sets). Unlike in client-go, a worker that takes a key ends
the key's delay: the pass that begins decides anew when the next one is due. The key's present level
decides in which lane it waits, so a key that is added again may move to a more urgent lane. Why it
was added is kept only for the log.

A worker may be busy for long with one tenant's key, and cannot be interrupted. So one tenant gets
at most as many of a level's workers as remain free: half of them if no other tenant has any, and an
equal share if others want as many.

Everything runs on one event loop, so there are no locks. The clock is the loop's.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from scheduler.core.backoff import doubled
from scheduler.observe.wake import WakeCause
from scheduler.reconcile.lanes import Lanes, Patience, TenantLine, anybody

K = TypeVar("K", bound=Hashable)

# A delay may be shorter than the clock's resolution. Without a minimum, the key would come back at
# the same moment, find that its time has not come, and be added again, without end.
_SOONEST_SECONDS: Final = 0.001
LONGEST_SECONDS: Final = 60.0
"""The longest delay of `add_rate_limited`."""
JITTER: Final = 0.25
"""Each of these delays is shortened by a random part of up to this, so that keys that failed
together do not come back together.
"""


# In a burst no key may wait for a worker, because all wait for the servers, or for the next pulse.
# So it is over only when fewer keys than this have been worked on at a time for so long. Of 20 pods
# a second, two or three are.
_BURST_KEYS: Final = 8
_BURST_SECONDS: Final = 1.0


class QueueShutDown(Exception):  # noqa: N818 - named for the state of the thing
    """The queue takes no more keys and has handed out the last one."""


class QueueMetrics(Protocol):
    """Receives the values of client-go's work queue metrics. Gauges use `statistics()` instead."""

    def added(self) -> None:
        """A key was added that was not waiting already."""

    def waited(self, seconds: float, /) -> None:
        """A key was handed to a worker after waiting this long."""

    def worked(self, seconds: float, /) -> None:
        """A key was marked done after being worked on for this long."""

    def retried(self) -> None:
        """A key was added with a delay."""


class QueueStatistics(NamedTuple):
    """The present state. `unfinished_seconds` is the sum over all keys that are being worked on."""

    depth: int
    unfinished_seconds: float
    longest_seconds: float


class WorkQueue(Generic[K]):
    """Keys that need a pass, each handled by one worker at a time.

    `level` returns a key's lane, each time the key is added; 0 is the most urgent. `line` returns
    the key's line within the lane: lines take turns, and their tenants share the workers. Without
    `line` there are no turns and no shares. The levels in `patience` have a patience of their own.
    The exponential delay of `add_rate_limited` begins with `first_seconds`.
    """

    def __init__(
        self,
        *,
        first_seconds: float = 0.005,
        metrics: QueueMetrics | None = None,
        levels: int = 1,
        level: Callable[[K], int] = lambda _key: 0,
        line: Callable[[K], TenantLine] | None = None,
        patience: Mapping[int, Patience] = MappingProxyType({}),
    ) -> None:
        self._first_seconds = first_seconds
        self._metrics = metrics
        self._level = level
        self._least_urgent = levels - 1
        self._shares = line is not None
        self._queue = Lanes[K](
            levels, line=line or (lambda _key: TenantLine(None)), patience=patience
        )
        self._dirty: dict[K, _Wish] = {}
        self._processing: dict[K, _Work] = {}
        # How many of the workers that serve each level each tenant has.
        self._held: dict[Hashable, list[int]] = {}
        self._none_held = [0] * levels
        self._failures: dict[K, int] = {}
        self._delays = _Delays[K]()
        self._timer: asyncio.TimerHandle | None = None
        self._idle_workers = _IdleWorkers(levels)
        self._idle = asyncio.Event()
        self._idle.set()
        self._burst_until = float("-inf")
        self._shut_down = False
        self._abandoned = False

    def __len__(self) -> int:
        return len(self._queue)

    def has_work(self) -> bool:
        """Whether a key waits for a worker, or this is a burst of keys. Not if what waits is left
        to the next process.
        """
        burst = asyncio.get_running_loop().time() < self._burst_until
        return (bool(self._queue) or burst) and not self._abandoned

    def add(self, key: K, cause: WakeCause, *more: WakeCause) -> None:
        """Request one pass for the key, for these causes. If the key waits already, it moves to the
        lane of its present level and keeps its earlier causes. After `shut_down` nothing is added.
        """
        if self._shut_down:
            return
        causes = (cause, *more)
        wish = self._dirty.get(key)
        if wish is None:
            self._dirty[key] = wish = _Wish(asyncio.get_running_loop().time(), causes)
            if self._metrics is not None:
                self._metrics.added()
        elif causes != wish.causes:
            self._dirty[key] = wish = wish.also(causes)
        if key not in self._processing:
            self._enqueue(key, wish.since)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key after a delay, unless a worker takes it before. If a key has several delays,
        the earliest counts.
        """
        if self._shut_down:
            return
        if self._metrics is not None:
            self._metrics.retried()
        if seconds <= 0:
            self.add(key, self._cause_of_delay(key))
            return
        soonest = max(seconds, _SOONEST_SECONDS)
        due = asyncio.get_running_loop().time() + soonest
        self._delays.put(key, due)
        if self._timer is None or due < self._timer.when():
            self._arm()

    def add_rate_limited(self, key: K, *, at_least: float = 0.0) -> float:
        """Add the key after its own exponential delay, but not before `at_least` seconds have
        passed. Returns the delay in seconds.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # the exponent is bounded, because a float would overflow after many failures
        seconds = doubled(self._first_seconds, failures, longest_seconds=LONGEST_SECONDS)
        seconds *= 1.0 - JITTER * random.random()  # noqa: S311 - not cryptography
        seconds = max(seconds, at_least)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """Reset the key's delay, because it has succeeded or is given up."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key was added with `add_rate_limited` since it was last forgotten."""
        return self._failures.get(key, 0)

    def causes(self, key: K) -> tuple[WakeCause, ...]:
        """Why the key that is being worked on was added: each cause once, in order of arrival.
        Empty for any other key.
        """
        work = self._processing.get(key)
        return () if work is None else work.causes

    def level(self, key: K) -> int:
        """How urgent the key is now."""
        return self._level(key)

    async def get(self, least_urgent: int | None = None) -> K:
        """Wait for the next key whose level is `least_urgent` or more urgent (0 is the most
        urgent), and take it; None means any level. Call `done` with the key afterwards. Raises
        QueueShutDown when no key will come any more.
        """
        least_urgent = self._least_urgent if least_urgent is None else least_urgent
        while (taken := self._take(least_urgent)) is None:
            if self._shut_down:
                raise QueueShutDown
            await self._wait(least_urgent)
        key, line = taken
        now = asyncio.get_running_loop().time()
        wish = self._dirty.pop(key)
        self._delays.drop(key)  # the pass that begins sees all there is, and sets its own delay
        self._processing[key] = _Work(now, wish.causes, line.tenant, least_urgent)
        if len(self._processing) >= _BURST_KEYS:
            self._burst_until = now + _BURST_SECONDS
        held = self._held.get(line.tenant)
        if held is None:
            held = self._held[line.tenant] = self._none_held[:]
        for level in range(least_urgent + 1):
            held[level] += 1
        self._rouse()  # a worker may have been woken for the key that was taken here
        self._idle.clear()
        if self._metrics is not None:
            self._metrics.waited(now - wish.since)
        return key

    def done(self, key: K) -> None:
        """The worker has finished with the key. If it was added in the meantime, it waits again."""
        work = self._processing.pop(key, None)
        if work is None:
            return
        held = self._held[work.tenant]
        for level in range(work.least_urgent + 1):
            held[level] -= 1
        if not held[0]:  # all workers serve the most urgent level
            del self._held[work.tenant]
        if self._metrics is not None:
            self._metrics.worked(asyncio.get_running_loop().time() - work.started)
        wish = self._dirty.get(key)
        if wish is not None:
            self._enqueue(key, wish.since)
        self._settle()

    def shut_down(self) -> None:
        """Ignore new keys and drop delayed ones. Keys that wait are still handed out."""
        self._shut_down = True
        self._delays.clear()
        self._disarm()
        while self._idle_workers.wake(0):  # all workers serve the most urgent level
            pass
        self._settle()

    def abandon(self) -> None:
        """Shut down and hand out nothing more. The next process handles the keys that still
        wait.
        """
        self._abandoned = True
        self.shut_down()

    async def drain(self) -> None:
        """Shut down, and return when every key that was handed out is done. The caller sets a
        deadline.
        """
        self.shut_down()
        await self._idle.wait()

    def statistics(self) -> QueueStatistics:
        """Numbers for gauges and tests; all times in seconds."""
        now = asyncio.get_running_loop().time()
        running = [now - work.started for work in self._processing.values()]
        return QueueStatistics(
            depth=len(self._queue),
            unfinished_seconds=sum(running),
            longest_seconds=max(running, default=0.0),
        )

    def _enqueue(self, key: K, since: float) -> None:
        if self._queue.is_most_urgent(key):
            return  # whatever its level is now, it stays
        if not self._queue.put(key, self._level(key), since):
            return
        self._idle.clear()
        self._rouse()

    def _take(self, least_urgent: int) -> tuple[K, TenantLine] | None:
        """Take the next key, with its line, for a worker that takes levels up to `least_urgent`;
        None if there is none for it.
        """
        if self._abandoned or not self._queue:
            return None
        may = self._caller_may_serve if self._shares and not self._shut_down else anybody
        return self._queue.take(least_urgent, asyncio.get_running_loop().time(), may)

    def _caller_may_serve(self, level: int, line: TenantLine) -> bool:
        """Whether the line's tenant may have one more of the workers that serve that level, if that
        worker is one that does not wait in `get`.
        """
        held = self._held.get(line.tenant, self._none_held)
        return held[level] <= self._idle_workers.serving[level]

    def _idle_may_serve(self, level: int, line: TenantLine) -> bool:
        """The same, if that worker waits in `get`."""
        held = self._held.get(line.tenant, self._none_held)
        return held[level] < self._idle_workers.serving[level]

    def _rouse(self) -> None:
        """Wake one worker that can take the next key: the one with the fewest levels."""
        # The search goes through all tenants, so not through levels for which nobody waits.
        levels = self._idle_workers.levels()
        if not levels:
            return
        may = self._idle_may_serve if self._shares and not self._shut_down else anybody
        first = self._queue.first(levels, may)
        if first is not None:
            self._idle_workers.wake(first)

    def _settle(self) -> None:
        if not self._processing and not self._queue:
            self._idle.set()

    async def _wait(self, least_urgent: int) -> None:
        woken = self._idle_workers.add(least_urgent)
        try:
            await woken
        except asyncio.CancelledError:
            self._idle_workers.discard(least_urgent, woken)
            if woken.done() and not woken.cancelled():
                self._rouse()  # another worker must take the key that woke us
            raise

    def _arm(self) -> None:
        due = self._delays.next_due()
        self._disarm()
        if due is not None:
            self._timer = asyncio.get_running_loop().call_at(due, self._release)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _release(self) -> None:
        for key in self._delays.pop_due(asyncio.get_running_loop().time()):
            self.add(key, self._cause_of_delay(key))
        self._arm()

    def _cause_of_delay(self, key: K) -> WakeCause:
        return WakeCause.RETRY if key in self._failures else WakeCause.TIMER


class _Wish(NamedTuple):
    """When a key was added, and why: each cause once, in order of arrival."""

    since: float
    causes: tuple[WakeCause, ...]

    def also(self, causes: tuple[WakeCause, ...]) -> _Wish:
        """The same wish, for these causes too."""
        return _Wish(self.since, tuple(dict.fromkeys(self.causes + causes)))


class _Work(NamedTuple):
    """A key that a worker has taken: when, why, for which tenant, and which levels that worker
    takes.
    """

    started: float
    causes: tuple[WakeCause, ...]
    tenant: Hashable
    least_urgent: int


class _Delays(Generic[K]):
    """Keys and when they are due. A key has only one time: the earliest that was set for it."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0  # breaks ties, because keys need not be comparable

    def put(self, key: K, due: float) -> None:
        if self._due.get(key, due + 1.0) <= due:
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._compact()

    def drop(self, key: K) -> None:
        self._due.pop(key, None)

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def next_due(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # the key has got another time since, or none
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[K]:
        keys = []
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            keys.append(key)
        return keys

    def _compact(self) -> None:
        # each time a key gets another time, its former entry stays in the heap
        self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)


class _IdleWorkers:
    """Workers that wait for a key, by the least urgent level that each takes."""

    def __init__(self, levels: int) -> None:
        self._waiting = tuple(deque[asyncio.Future[None]]() for _ in range(levels))
        self.serving = [0] * levels
        """How many of them take keys of each level."""

    def levels(self) -> int:
        """How many levels they take, the most urgent one first; 0 if nobody waits."""
        return len(self.serving) - self.serving.count(0)

    def add(self, least_urgent: int) -> asyncio.Future[None]:
        """A worker waits from now on. Returns what ends its wait."""
        woken = asyncio.get_running_loop().create_future()
        self._waiting[least_urgent].append(woken)
        self._count(least_urgent, 1)
        return woken

    def discard(self, least_urgent: int, woken: asyncio.Future[None]) -> None:
        """This worker no longer waits."""
        if woken in self._waiting[least_urgent]:
            self._waiting[least_urgent].remove(woken)
            self._count(least_urgent, -1)

    def wake(self, level: int) -> bool:
        """Wake one that takes keys of this level: of those with the fewest levels, the one that has
        waited longest. Returns whether there was one.
        """
        for least_urgent in range(level, len(self._waiting)):
            while self._waiting[least_urgent]:
                woken = self._waiting[least_urgent].popleft()
                self._count(least_urgent, -1)
                if not woken.done():
                    woken.set_result(None)
                    return True
        return False

    def _count(self, least_urgent: int, change: int) -> None:
        for level in range(least_urgent + 1):
            self.serving[level] += change
