"""Recorded events: what a pod's owner reads in `kubectl describe pod`.

Recording never waits and never fails the caller. Repetitions of the same (object, reason, message)
become one Event with a count, the rate is bounded, and when the server is away the oldest of a
bounded number of waiting events are dropped, and counted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import structlog

from scheduler.kube.api import KubeApi
from scheduler.kube.errors import KubeError, NotFound
from scheduler.kube.wire import Pod

log = structlog.get_logger(__name__)

EventType = Literal["Normal", "Warning"]
LONGEST_MESSAGE = 1024  # what the events API allows
LONGEST_NAME = 253 - 33  # a DNS subdomain, minus our suffix
REMEMBERED = 4096  # client-go remembers as many for counting repetitions
TRIES = 12  # client-go's number, for an API server that is away
LONGEST_PAUSE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """The object an event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    api_version: str = "v1"

    @classmethod
    def of_pod(cls, pod: Pod) -> ObjectRef:
        """A reference to that pod in that version."""
        meta = pod.metadata
        return cls(
            kind="Pod",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )


class RecorderStatistics(NamedTuple):
    """Numbers of events since the start; `waiting` is now."""

    recorded: int
    written: int
    dropped: int
    waiting: int


class _Key(NamedTuple):
    uid: str
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Entry:
    """An Event to be written, and once written, what later repetitions add to."""

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

    `qps` bounds writes per second with bursts of `burst`; at most `capacity` events wait.
    """

    def __init__(
        self,
        api: KubeApi,
        *,
        component: str,
        instance: str,
        qps: float = 50.0,
        burst: int = 100,
        capacity: int = 2000,
        drain_seconds: float = 2.0,
    ) -> None:
        self._api = api
        self._component = component
        self._instance = instance
        self._interval = 1.0 / qps
        self._burst = burst
        self._capacity = capacity
        self._drain_seconds = drain_seconds
        self._waiting: OrderedDict[_Key, _Entry] = OrderedDict()
        self._known: OrderedDict[_Key, _Entry] = OrderedDict()
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._free_at = 0.0
        self._recorded = self._written = self._dropped = 0

    def record(
        self, ref: ObjectRef, *, type: EventType, reason: str, message: str, action: str = ""
    ) -> None:
        """Note that something happened to the object; returns at once."""
        self._recorded += 1
        key = _Key(ref.uid, type, reason, message[:LONGEST_MESSAGE])
        now = datetime.now(UTC)
        entry = self._known.pop(key, None)
        if entry is None:
            entry = _Entry(ref, action, first=now, last=now)
        else:
            entry.count += 1
            entry.last = now
        self._known[key] = entry
        self._waiting.setdefault(key, entry)
        self._trim()
        self._wake.set()

    def stop(self) -> None:
        """Let `run` write what waits, for `drain_seconds` at most, and return."""
        self._stopping.set()
        self._wake.set()

    def statistics(self) -> RecorderStatistics:
        """Counters for metrics and tests."""
        return RecorderStatistics(self._recorded, self._written, self._dropped, len(self._waiting))

    async def run(self) -> None:
        """Write events until stopped."""
        while not self._stopping.is_set():
            await self._wake.wait()
            self._wake.clear()
            await self._write_all(paced=True)
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self._write_all(paced=False)
        except TimeoutError:
            log.warning("recorded events lost at shutdown", events=len(self._waiting))

    async def _write_all(self, *, paced: bool) -> None:
        while self._waiting and not (paced and self._stopping.is_set()):
            key, entry = self._waiting.popitem(last=False)
            if paced:
                await self._token()
            try:
                await self._write(key, entry)
                self._written += 1
            except KubeError as error:
                await self._failed(key, entry, error, again=paced)

    async def _write(self, key: _Key, entry: _Entry) -> None:
        entry.name = entry.name or f"{entry.ref.name[:LONGEST_NAME]}.{uuid4().hex}"
        if entry.written:
            try:
                patch = {"count": entry.count, "lastTimestamp": _rfc3339(entry.last)}
                await self._api.patch_event(entry.ref.namespace, entry.name, patch)
            except NotFound:  # expired; tell it anew
                entry.first, entry.count, entry.written = entry.last, 1, False
        if not entry.written:
            await self._api.create_event(entry.ref.namespace, self._body(key, entry))
        entry.written = True
        entry.tries = 0

    async def _failed(self, key: _Key, entry: _Entry, error: KubeError, *, again: bool) -> None:
        entry.tries += 1
        if not (again and error.retryable and entry.tries < TRIES):
            self._dropped += 1
            self._known.pop(key, None)
            log.warning("event not recorded", object=entry.ref.name, error=str(error))
            return
        self._waiting[key] = entry
        self._waiting.move_to_end(key, last=False)
        self._trim()
        pause = min(0.5 * 2.0**entry.tries, LONGEST_PAUSE_SECONDS)
        await self._rest(max(pause, error.retry_after or 0.0))

    async def _token(self) -> None:
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now - self._burst * self._interval) + self._interval
        if self._free_at > now:
            await self._rest(self._free_at - now)

    async def _rest(self, seconds: float) -> None:
        """Sleep, but not into the shutdown."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _trim(self) -> None:
        while len(self._waiting) > self._capacity:
            self._waiting.popitem(last=False)
            self._dropped += 1
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


def _rfc3339(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
