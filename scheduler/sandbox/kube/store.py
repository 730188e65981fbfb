"""Versioned objects in memory, with one version counter, a bounded history, and watchers.

Objects are never changed in place; a change stores a new object. So an object's JSON is made once,
and every reader and watcher gets the same bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, cast

import msgspec

Body = dict[str, Any]
Key = tuple[str, str]
"""Namespace (empty for an object without one) and name."""
Test = Callable[[Body], bool]
Render = Callable[[Body], Body]

FIRST_VERSION = 1
HISTORY = 10_000
LONGEST_BACKLOG = 50_000

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"

_TYPE = b'{"kind":"%s","apiVersion":"%s",'
_encode = msgspec.json.Encoder().encode


class Stored:
    """One state of one object. Its JSON is made at the first request and then kept."""

    __slots__ = ("_raw", "body", "version")

    def __init__(self, body: Body, version: int) -> None:
        self.body = body
        self.version = version
        self._raw: bytes | None = None

    @property
    def raw(self) -> bytes:
        """The object as JSON."""
        if self._raw is None:
            self._raw = _encode(self.body)
        return self._raw

    @property
    def item(self) -> bytes:
        """The object's JSON for a list, without kind and apiVersion: lists do not repeat them."""
        raw = self.raw
        prefix = _TYPE % (self.body["kind"].encode(), self.body["apiVersion"].encode())
        return b"{" + raw[len(prefix) :] if raw.startswith(prefix) else raw

    def at(self, version: int) -> Stored:
        """The same state under another resourceVersion, for the last event of a deleted object."""
        metadata = {**self.body["metadata"], "resourceVersion": str(version)}
        return Stored({**self.body, "metadata": metadata}, version)


class Change:
    """What one write did to one object."""

    __slots__ = ("_gone", "_lines", "after", "before", "key", "version")

    def __init__(self, key: Key, version: int, before: Stored | None, after: Stored | None) -> None:
        self.key = key
        self.version = version
        self.before = before
        self.after = after
        self._gone: Stored | None = None
        self._lines: dict[str, bytes] = {}

    def seen_by(self, test: Test | None) -> str | None:
        """The type of the event for a watcher with that selector; None if it gets no event."""
        was = self.before is not None and (test is None or test(self.before.body))
        now = self.after is not None and (test is None or test(self.after.body))
        if now:
            return MODIFIED if was else ADDED
        return DELETED if was else None

    def object(self, kind: str) -> Stored:
        """The object that goes with an event of that type."""
        if self.after is not None and kind != DELETED:
            return self.after
        if self._gone is None:
            self._gone = cast("Stored", self.before).at(self.version)
        return self._gone

    def line(self, kind: str) -> bytes:
        """The watch event as a line of JSON, made once."""
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = event_line(kind, self.object(kind).raw)
        return line


def event_line(kind: str, raw: bytes) -> bytes:
    """One watch event around an object's JSON."""
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)


class Watcher:
    """A queue of lines for one watch request. `wait` returns when there are lines to send."""

    __slots__ = ("_backlog", "_namespace", "_render", "_test", "_wake", "ended")

    def __init__(self, *, namespace: str, test: Test | None, render: Render | None) -> None:
        self._namespace = namespace
        self._test = test
        self._render = render
        self._backlog: list[bytes] = []
        self._wake = asyncio.Event()
        self.ended = False

    def offer(self, change: Change) -> None:
        """Queue the change if it concerns this watch. A watch that reads too slowly is ended."""
        if self.ended or (self._namespace and change.key[0] != self._namespace):
            return
        kind = change.seen_by(self._test)
        if kind is None:
            return
        self._backlog.append(self._line(change, kind))
        if len(self._backlog) > LONGEST_BACKLOG:
            self.close()
        self._wake.set()

    def take(self) -> list[bytes]:
        """Remove and return all queued lines."""
        lines, self._backlog = self._backlog, []
        return lines

    async def wait(self, *, until: float) -> None:
        """Wait for the next line or the end of the watch, but no longer than until this time of the
        loop's clock.
        """
        self._wake.clear()
        if self._backlog or self.ended:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._wake.wait()

    def close(self) -> None:
        """End the watch after the queued lines, as a server that stops does."""
        self.ended = True
        self._wake.set()

    def _line(self, change: Change, kind: str) -> bytes:
        if self._render is None:
            return change.line(kind)
        return event_line(kind, _encode(self._render(change.object(kind).body)))


class Collection:
    """The objects of one resource, their recent changes, and their watchers."""

    def __init__(self, history: int) -> None:
        self.objects: dict[Key, Stored] = {}
        self.history: deque[Change] = deque()
        self.watchers: set[Watcher] = set()
        self.compacted = 0
        self._longest = history
        self._order: list[Key] | None = None

    def keys(self) -> list[Key]:
        """All keys, sorted as in lists."""
        if self._order is None:
            self._order = sorted(self.objects)
        return self._order

    def record(self, change: Change) -> None:
        """Apply the change to the objects, add it to the history, and tell the watchers."""
        if change.after is None:
            del self.objects[change.key]
            self._order = None
        else:
            if change.before is None:
                self._order = None
            self.objects[change.key] = change.after
        self.history.append(change)
        if len(self.history) > self._longest:
            self.compacted = self.history.popleft().version
        for watcher in self.watchers:
            watcher.offer(change)

    def since(self, version: int) -> Iterator[Change]:
        """The changes after that version, oldest first. The caller must check `compacted` first."""
        newest: list[Change] = []
        for change in reversed(self.history):
            if change.version <= version:
                break
            newest.append(change)
        return reversed(newest)

    def at(self, version: int) -> list[tuple[Key, Stored]]:
        """The keys and objects as they were at that version, sorted as in lists."""
        undone: dict[Key, Stored | None] = {}
        for change in reversed(self.history):
            if change.version <= version:
                break
            undone[change.key] = change.before
        if not undone:
            return [(key, self.objects[key]) for key in self.keys()]
        past: dict[Key, Stored | None] = {**self.objects, **undone}
        return [(key, stored) for key in sorted(past) if (stored := past[key]) is not None]


class Store:
    """All collections under one version counter."""

    def __init__(self, *, history: int = HISTORY) -> None:
        self.version = FIRST_VERSION
        self._history = history
        self._collections: dict[str, Collection] = {}
        self._observers: list[Callable[[str, Change], None]] = []

    def __getitem__(self, storage: str) -> Collection:
        collection = self._collections.get(storage)
        if collection is None:
            collection = self._collections[storage] = Collection(self._history)
        return collection

    def kept(self) -> int:
        """How many objects and former states of objects there are."""
        return sum(len(it.objects) + len(it.history) for it in self._collections.values())

    def get(self, storage: str, key: Key) -> Stored | None:
        """The object's present state."""
        return self[storage].objects.get(key)

    def put(self, storage: str, key: Key, body: Body) -> Stored:
        """Store a state under the next version, which is written into its metadata."""
        version = self._next()
        metadata = {**body["metadata"], "resourceVersion": str(version)}
        kind = {"kind": body["kind"], "apiVersion": body["apiVersion"]}  # first, for `item`
        stored = Stored({**kind, **body, "metadata": metadata}, version)
        self._record(storage, Change(key, version, self.get(storage, key), stored))
        return stored

    def remove(self, storage: str, key: Key) -> Stored:
        """Remove the object. Returns its last state, with the version of the removal."""
        change = Change(key, self._next(), self[storage].objects[key], None)
        self._record(storage, change)
        return change.object(DELETED)

    def observe(self, observer: Callable[[str, Change], None]) -> Callable[[], None]:
        """Call `observer` immediately for every change. Returns a function that ends this."""
        self._observers.append(observer)
        return lambda: self._observers.remove(observer)

    def compact(self) -> None:
        """Forget the past, as etcd does every five minutes."""
        for collection in self._collections.values():
            collection.history.clear()
            collection.compacted = self.version

    def close_watches(self) -> None:
        """End all watches."""
        for collection in self._collections.values():
            for watcher in collection.watchers:
                watcher.close()

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _record(self, storage: str, change: Change) -> None:
        self[storage].record(change)
        for observer in self._observers:
            observer(storage, change)
