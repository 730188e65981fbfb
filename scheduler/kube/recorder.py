"""Recorded events: what a pod's owner reads in `kubectl describe pod`.

`record` returns at once and raises no errors of the API server. Repetitions of the same object,
type, reason and message become one Event with a count. The rate of Events is bounded, for each
object as by client-go's spam filter, and in total; so is the number that wait. Events beyond a
bound are dropped and counted.

A webhook may refuse the Events of one namespace, or take long over each. So at most one Event of a
namespace is written at a time. An Event that fails or is slow delays its own namespace alone. All
namespaces wait only if the API server can serve none of them (`event_pauses.py`).

While pods wait for the scheduler itself, as in a burst, their Events wait too, for half a minute at
most. They cost the API server half as much as the bindings.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import msgspec
import structlog

from scheduler.core.budgets import Budgets
from scheduler.kube.api import KubeApi
from scheduler.kube.clip import clipped
from scheduler.kube.errors import KubeError, NotFound
from scheduler.kube.event_order import EventOrder
from scheduler.kube.event_pauses import EventPauses
from scheduler.kube.wire import Pod

log = structlog.get_logger(__name__)

EventType = Literal["Normal", "Warning"]
Dropped = Literal["object", "full", "refused", "shutdown"]
"""Why an Event was not written: its object had too many, too many waited, the server refused it, or
the process ended.
"""
LONGEST_NAME = 253 - 33  # the longest DNS subdomain, less the suffix added here
TRIES = 12  # client-go's number, for an API server that is away
WRITERS = 4  # namespaces whose Events are being written at the same time
# The budget of each object, as in client-go's EventSourceObjectSpamFilter: a burst of Events at
# once, and then one every OBJECT_SECONDS. Important Events have a budget of their own.
OBJECT_BURST = 25
OBJECT_SECONDS = 300.0
TOTAL_BURST = 100
# A burst of thousands of pods has an Event for each. One takes 1.4 KiB in memory (measured), and
# 1 KiB more with the longest message.
CAPACITY = 8192
REMEMBERED = CAPACITY  # to count repetitions of what waits or was written
DRAIN_SECONDS = 2.0  # a part of the grace period of the shutdown
# Events give way to other work until the oldest of them has waited for this long, and only while
# fewer than this many wait.
YIELD_SECONDS = 30.0
YIELD_EVENTS = CAPACITY // 2
# How often Events that give way look whether they still must.
_YIELD_LOOK_SECONDS = 0.2
# The shortest wait. The rest of a pause can be less than the clock's resolution.
_SOONEST_SECONDS = 0.001


class ObjectRef(msgspec.Struct, frozen=True, kw_only=True):
    """The object that an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    api_version: str = "v1"

    @classmethod
    def of_pod(cls, pod: Pod) -> ObjectRef:
        """A reference to the pod in its present version."""
        meta = pod.metadata
        return cls(
            kind="Pod",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )


class _Key(NamedTuple):
    uid: str
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Entry:
    """An Event that is to be written. Once it is written, repetitions are added to it."""

    ref: ObjectRef
    action: str
    first: datetime
    last: datetime
    count: int = 1
    name: str = ""
    written: bool = False
    tries: int = 0


class Recorder:
    """Writes core/v1 Events in the background; `run` is its task, `stop` ends it after a drain.

    `qps` bounds the writes per second, with bursts of TOTAL_BURST; at most CAPACITY Events wait.
    Events with a reason in `important` go first. `on_drop` is called for each Event that is
    dropped.
    """

    def __init__(
        self,
        api: KubeApi,
        *,
        component: str,
        instance: str,
        qps: float = 50.0,
        important: Collection[str] = frozenset(),
        on_drop: Callable[[Dropped], None] = lambda _why: None,
    ) -> None:
        self._api = api
        self._component = component
        self._instance = instance
        self._pace = Budgets[None](TOTAL_BURST, 1.0 / qps)
        self._important = frozenset(important)
        self._on_drop = on_drop
        self._budgets = {kind: Budgets[str](OBJECT_BURST, OBJECT_SECONDS) for kind in (True, False)}
        self._waiting = EventOrder[_Key, _Entry]()
        self._known: OrderedDict[_Key, _Entry] = OrderedDict()
        self._pauses = EventPauses()
        self._busy: set[str] = set()
        # Since when those wait that were not tried yet, the oldest first.
        self._untried: dict[_Key, float] = {}
        self._gives_way = False
        self._others_wait: Callable[[], bool] = lambda: False
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()

    def record(
        self, ref: ObjectRef, *, type: EventType, reason: str, message: str, action: str = ""
    ) -> None:
        """Note that something happened to the object; returns at once."""
        key = _Key(ref.uid, type, reason, clipped(message))
        now = datetime.now(UTC)
        entry = self._known.pop(key, None)
        if entry is None:
            entry = _Entry(ref, action, first=now, last=now)
        else:
            entry.count += 1
            entry.last = now
        self._known[key] = entry
        if key not in self._waiting:
            self._admit(key, entry)
        self._trim()
        if not self._gives_way:  # otherwise the writers look again soon, and could do nothing now
            self._wake.set()

    def _admit(self, key: _Key, entry: _Entry) -> None:
        """Add the Event to those that wait, unless its object has had too many."""
        budget, now = self._budgets[key.reason in self._important], _now()
        if budget.try_spend(key.uid, now):
            self._put(key, entry)
            self._untried[key] = now
        else:
            self._on_drop("object")

    def _put(self, key: _Key, entry: _Entry, *, first: bool = False) -> None:
        self._waiting.put(
            key,
            entry,
            namespace=entry.ref.namespace,
            uid=key.uid,
            important=key.reason in self._important,
            first=first,
        )

    def stop(self) -> None:
        """Let `run` write the waiting Events for DRAIN_SECONDS at most, and then return."""
        self._stopping.set()
        self._wake.set()

    async def run(self, *, others_wait: Callable[[], bool] = lambda: False) -> None:
        """Write events until stopped. `others_wait` says whether there is more urgent work."""
        self._others_wait = others_wait
        await self._all_write(self._write_paced)
        self._others_wait = lambda: False  # the process ends, and serves nobody any more
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._all_write(self._write_rest)
        except TimeoutError:
            log.warning("recorded events lost at shutdown", events=len(self._waiting))
            for _ in range(len(self._waiting)):
                self._on_drop("shutdown")

    async def _all_write(self, writer: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(writer(), name=f"events {number}")

    async def _write_paced(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            found = self._next(_now())
            if found is None:
                await self._wait_for_news()
                continue
            await self._turn()
            await self._try(*found, again=True)

    async def _write_rest(self) -> None:
        """At the end of the process, try to write each Event once, without a pause."""
        while (found := self._next(math.inf)) is not None:
            await self._try(*found, again=False)

    def _next(self, now: float) -> tuple[_Key, _Entry] | None:
        """The next Event that may be written. Its namespace is busy from here on."""
        self._gives_way = self._yields(now)
        if self._gives_way or self._pauses.all_until > now:
            return None
        found = self._waiting.pop(
            lambda namespace: namespace not in self._busy and self._pauses.until(namespace) <= now
        )
        if found is not None:
            self._busy.add(found[1].ref.namespace)
            self._untried.pop(found[0], None)
        return found

    def _yields(self, now: float) -> bool:
        """Whether the Events that wait give way to other work. Those that failed before do not
        count: one namespace may refuse its Events all the time.
        """
        oldest = next(iter(self._untried.values()), None)
        if oldest is None or len(self._waiting) >= YIELD_EVENTS or not self._others_wait():
            return False
        return now - oldest < YIELD_SECONDS

    async def _wait_for_news(self) -> None:
        """Wait until an Event was recorded or written, or a pause is over."""
        seconds = self._pauses.next_over(_now())
        if self._gives_way:
            seconds = min(seconds or math.inf, _YIELD_LOOK_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds and max(seconds, _SOONEST_SECONDS)):
                await self._wake.wait()

    async def _try(self, key: _Key, entry: _Entry, *, again: bool) -> None:
        namespace, began = entry.ref.namespace, _now()
        try:
            await self._write(key, entry)
            self._pauses.written(namespace, _now(), seconds=_now() - began)
        except KubeError as error:
            self._pauses.failed(namespace, _now(), seconds=_now() - began, error=error)
            self._failed(key, entry, error, again=again)
        finally:
            self._busy.discard(namespace)
            self._wake.set()

    async def _write(self, key: _Key, entry: _Entry) -> None:
        entry.name = entry.name or _event_name(entry.ref.name)
        if entry.written:
            try:
                patch = {"count": entry.count, "lastTimestamp": _rfc3339(entry.last)}
                await self._api.patch_event(entry.ref.namespace, entry.name, patch)
            except NotFound:  # expired: create a new one
                entry.first, entry.count, entry.written = entry.last, 1, False
        if not entry.written:
            await self._api.create_event(entry.ref.namespace, self._body(key, entry))
        entry.written = True
        entry.tries = 0

    def _failed(self, key: _Key, entry: _Entry, error: KubeError, *, again: bool) -> None:
        entry.tries += 1
        if not (again and error.retryable and entry.tries < TRIES):
            self._on_drop("refused")
            self._known.pop(key, None)
            log.warning("event not recorded", object=entry.ref.name, error=str(error))
            return
        if key not in self._waiting:  # an Event repeated in the meantime waits already
            self._put(key, entry, first=True)
        self._trim()

    async def _turn(self) -> None:
        """Wait until the limit of `qps` allows one more write. Each waiting writer has its own
        turn.
        """
        now = _now()
        seconds = self._pace.wait(None, now)
        self._pace.take(None, now)
        if seconds > 0:
            await self._sleep_unless_stopping(seconds)

    async def _sleep_unless_stopping(self, seconds: float) -> None:
        """Sleep, but no longer than until the shutdown."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _trim(self) -> None:
        while len(self._waiting) > CAPACITY:
            key, _ = self._waiting.drop()
            self._untried.pop(key, None)
            self._on_drop("full")
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _body(self, key: _Key, entry: _Entry) -> dict[str, Any]:
        ref = entry.ref
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": entry.name, "namespace": ref.namespace},
            "involvedObject": {
                "apiVersion": ref.api_version,
                "kind": ref.kind,
                "namespace": ref.namespace,
                "name": ref.name,
                "uid": ref.uid,
                "resourceVersion": ref.resource_version,
            },
            "type": key.type,
            "reason": key.reason,
            "message": key.message,
            "action": entry.action,
            "count": entry.count,
            "firstTimestamp": _rfc3339(entry.first),
            "lastTimestamp": _rfc3339(entry.last),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }


def _now() -> float:
    """The time of the running event loop, in seconds."""
    return asyncio.get_running_loop().time()


def _event_name(about: str) -> str:
    """A new name that begins with the object's name, cut if needed. Each part between dots must end
    with a letter or digit, so hyphens and dots at the end of the cut name are removed too.
    """
    return f"{about[:LONGEST_NAME].rstrip('-.')}.{uuid4().hex}"


def _rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
