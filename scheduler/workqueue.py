"""The queue between those who notice and those who act, with client-go's semantics.

A key is added, worked on by one worker at a time, and marked done. Added a thousand times before a
worker takes it, it runs once; added while it is being worked on, it runs once more afterwards
(the *dirty* and *processing* sets). Nothing about why a key was added is kept.

Single-threaded on one event loop, so no locks. The clock is the loop's.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Hashable
from typing import Generic, NamedTuple, Protocol, TypeVar

from scheduler.backoff import doubled

K = TypeVar("K", bound=Hashable)


class QueueShutDown(Exception):  # noqa: N818 - named for the state of the thing
    """The queue takes no more keys and has handed out its last."""


class QueueMetrics(Protocol):
    """Receives client-go's work queue metrics as they happen; gauges come from `statistics()`."""

    def depth(self, keys: int, /) -> None:
        """The number of keys that wait for a worker has changed."""

    def added(self) -> None:
        """A key was added that was not waiting already."""

    def waited(self, seconds: float, /) -> None:
        """A key was handed to a worker after waiting this long."""

    def worked(self, seconds: float, /) -> None:
        """A key was marked done after being worked on for this long."""

    def retried(self) -> None:
        """A key was added with a delay."""


class QueueStatistics(NamedTuple):
    """The queue now. `unfinished_seconds` is the sum over the keys being worked on."""

    depth: int
    delayed: int
    processing: int
    unfinished_seconds: float
    longest_seconds: float


class WorkQueue(Generic[K]):
    """Keys that need a look, each handled by one worker at a time.

    `first_seconds` and `longest_seconds` bound the exponential delay of `add_rate_limited`; up to
    `jitter` of a delay is taken away at random, so that keys that failed together part.
    """

    def __init__(
        self,
        *,
        first_seconds: float = 0.005,
        longest_seconds: float = 60.0,
        jitter: float = 0.25,
        metrics: QueueMetrics | None = None,
    ) -> None:
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._jitter = jitter
        self._metrics = metrics
        self._queue: deque[K] = deque()
        self._dirty: dict[K, float] = {}  # key -> when it was added
        self._processing: dict[K, float] = {}  # key -> when a worker took it
        self._failures: dict[K, int] = {}
        self._delays = _Delays[K]()
        self._timer: asyncio.TimerHandle | None = None
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._shut_down = False
        self._abandoned = False

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, key: K) -> None:
        """Ask for one look at the key. Ignored while it is waiting already, and after shut-down."""
        if self._shut_down or key in self._dirty:
            return
        self._dirty[key] = asyncio.get_running_loop().time()
        if self._metrics is not None:
            self._metrics.added()
        if key not in self._processing:
            self._enqueue(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key later. Of several delayed adds of one key the earliest counts."""
        if self._shut_down:
            return
        if self._metrics is not None:
            self._metrics.retried()
        if seconds <= 0:
            self.add(key)
            return
        self._delays.put(key, asyncio.get_running_loop().time() + seconds)
        self._arm()

    def add_rate_limited(self, key: K, *, at_least: float = 0.0) -> float:
        """Add the key after its own exponential delay, and no sooner than after `at_least` seconds;
        returns the delay in seconds.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # 2**64 times any first delay is beyond any longest one; a float must not overflow
        seconds = doubled(self._first_seconds, failures, longest_seconds=self._longest_seconds)
        seconds *= 1.0 - self._jitter * random.random()  # noqa: S311 - not cryptography
        seconds = max(seconds, at_least)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """The key has succeeded, or is given up: its next failure is its first again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often the key was added rate-limited since it was last forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key; `done` must follow. Raises QueueShutDown when no more will come."""
        while not self._queue or self._abandoned:
            if self._shut_down:
                raise QueueShutDown
            await self._wait()
        key = self._queue.popleft()
        now = asyncio.get_running_loop().time()
        waited = now - self._dirty.pop(key)
        self._processing[key] = now
        self._idle.clear()
        if self._metrics is not None:
            self._metrics.depth(len(self._queue))
            self._metrics.waited(waited)
        return key

    def done(self, key: K) -> None:
        """The worker has finished with the key; if it was added meanwhile it waits again."""
        started = self._processing.pop(key, None)
        if started is None:
            return
        if self._metrics is not None:
            self._metrics.worked(asyncio.get_running_loop().time() - started)
        if key in self._dirty:
            self._enqueue(key)
        self._settle()

    def shut_down(self) -> None:
        """Ignore new keys and drop delayed ones; those waiting are still handed out."""
        self._shut_down = True
        self._delays.clear()
        self._disarm()
        while self._getters:
            _wake(self._getters)
        self._settle()

    def abandon(self) -> None:
        """Shut down, and hand out nothing more: what waits is another process' to do."""
        self._abandoned = True
        self.shut_down()

    async def drain(self) -> None:
        """Shut down, and return when every key handed out is done. The caller sets the deadline."""
        self.shut_down()
        await self._idle.wait()

    @property
    def shutting_down(self) -> bool:
        """Whether new keys are ignored."""
        return self._shut_down

    def statistics(self) -> QueueStatistics:
        """Numbers for gauges and tests; all times in seconds."""
        now = asyncio.get_running_loop().time()
        running = [now - started for started in self._processing.values()]
        return QueueStatistics(
            depth=len(self._queue),
            delayed=len(self._delays),
            processing=len(running),
            unfinished_seconds=sum(running),
            longest_seconds=max(running, default=0.0),
        )

    def _enqueue(self, key: K) -> None:
        self._queue.append(key)
        self._idle.clear()
        if self._metrics is not None:
            self._metrics.depth(len(self._queue))
        _wake(self._getters)

    def _settle(self) -> None:
        if not self._processing and not self._queue:
            self._idle.set()

    async def _wait(self) -> None:
        getter = asyncio.get_running_loop().create_future()
        self._getters.append(getter)
        try:
            await getter
        except asyncio.CancelledError:
            if getter in self._getters:
                self._getters.remove(getter)
            if self._queue and getter.done() and not getter.cancelled():
                _wake(self._getters)  # the key that woke us must not be left lying
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
            self.add(key)
        self._arm()


class _Delays(Generic[K]):
    """Keys by the time they are due; a key has one time, the earliest it was given."""

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0  # breaks ties, for keys need not be comparable

    def __len__(self) -> int:
        return len(self._due)

    def put(self, key: K, due: float) -> None:
        if self._due.get(key, due + 1.0) <= due:
            return
        self._due[key] = due
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, key))
        if len(self._heap) > 2 * len(self._due) + 64:
            self._compact()

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def next_due(self) -> float | None:
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # overtaken by an earlier time
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> list[K]:
        keys = []
        while (due := self.next_due()) is not None and due <= now:
            key = heapq.heappop(self._heap)[2]
            del self._due[key]
            keys.append(key)
        return keys

    def _compact(self) -> None:
        # a key brought forward again and again leaves a far entry each time
        self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
        heapq.heapify(self._heap)


def _wake(getters: deque[asyncio.Future[None]]) -> None:
    while getters:
        getter = getters.popleft()
        if not getter.done():
            getter.set_result(None)
            return
