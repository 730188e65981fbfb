"""Watches: past changes since a version or the present objects, then new changes and bookmarks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from scheduler.sandbox.kube import events
from scheduler.sandbox.kube.errors import ApiError, expired, invalid, too_large_version
from scheduler.sandbox.kube.listing import ListQuery, list_query, number, parse_version
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import Body, Resource
from scheduler.sandbox.kube.store import Change, Collection, Watcher, event_line

Render = Callable[[Body], Body]

BOOKMARK_SECONDS = 60.0  # a real server sends one about once a minute
BOOKMARK_BEFORE_END_SECONDS = 2.0
LONGEST_SECONDS = 1800.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
BATCH = 500

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchQuery:
    """The query parameters of a watch; `initial` is None if sendInitialEvents was not given."""

    list: ListQuery
    bookmarks: bool = False
    initial: bool | None = None
    timeout_seconds: float = LONGEST_SECONDS

    @property
    def sends_initial(self) -> bool:
        """Whether the watch begins with the present objects, as ADDED events."""
        if self.initial is not None:
            return self.initial
        return self.list.version in {"", "0"}


def watch_query(namespace: str, parameters: Mapping[str, str]) -> WatchQuery:
    """The watch parameters of a request; raises ApiError 400 or 422."""
    initial = parameters.get("sendInitialEvents")
    timeout = number("timeoutSeconds", parameters.get("timeoutSeconds") or "0")
    query = WatchQuery(
        list=list_query(namespace, parameters),
        bookmarks=_flag(parameters.get("allowWatchBookmarks")),
        initial=None if initial is None else _flag(initial),
        timeout_seconds=timeout or LONGEST_SECONDS * (1.0 + random.random()),
    )
    _check_initial(query)
    return query


def _check_initial(query: WatchQuery) -> None:
    match = query.list.match
    if query.initial is None and match:
        text = (
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
            "provided"
        )
    elif query.initial is not None and match != "NotOlderThan":
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        if match:
            text = f'Unsupported value: "{match}": supported values: "NotOlderThan"'
    else:
        return
    raise invalid("ListOptions", "", [("resourceVersionMatch", text)], group="meta.k8s.io")


class Watch:
    """One watch request. `chunks` may be iterated once; at its end the watcher is removed."""

    def __init__(
        self,
        model: KubeModel,
        resource: Resource,
        query: WatchQuery,
        *,
        render: Render | None = None,
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        self._model = model
        self._resource = resource
        self._query = query
        self._collection: Collection = model.store[resource.storage]
        self._bookmark_seconds = bookmark_seconds
        self._watcher = Watcher(
            namespace=query.list.namespace,
            test=query.list.test(resource),
            render=events.to_new if resource.stored_as and render is None else render,
        )

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The lines of the watch, several in one chunk if several are ready. It ends after the
        timeout, when the server stops, or after an ERROR event.
        """
        try:
            for chunk in self._begin():
                yield chunk
            async for chunk in self._live():
                yield chunk
        finally:
            self._collection.watchers.discard(self._watcher)

    def _begin(self) -> Iterator[bytes]:
        """The events that are known at once. From then on the watcher collects new changes, so that
        none is lost in between.
        """
        try:
            lines = self._present() if self._query.sends_initial else self._past()
        except ApiError as error:
            self._watcher.close()
            return iter((event_line("ERROR", _encode(error.status())),))
        self._collection.watchers.add(self._watcher)
        if self._query.initial and self._query.bookmarks:
            lines.append(self._bookmark({INITIAL_EVENTS_END: "true"}))
        return (b"".join(lines[i : i + BATCH]) for i in range(0, len(lines), BATCH))

    def _present(self) -> list[bytes]:
        version = self._model.store.version
        wanted = parse_version(self._query.list.version)
        if wanted > version:
            raise too_large_version(wanted, version)
        for key, stored in self._collection.at(version):
            self._watcher.offer(Change(key, stored.version, None, stored))
        return self._watcher.take()

    def _past(self) -> list[bytes]:
        version = parse_version(self._query.list.version)
        if not version:
            return []
        oldest = self._collection.compacted
        if version < oldest:
            raise expired(f"too old resource version: {version} ({oldest})")
        for change in self._collection.since(version):
            self._watcher.offer(change)
        return self._watcher.take()

    async def _live(self) -> AsyncGenerator[bytes]:
        clock = asyncio.get_running_loop().time
        end = clock() + self._query.timeout_seconds
        bookmark_at = self._next_bookmark(clock(), end)
        while True:
            if lines := self._watcher.take():
                yield b"".join(lines)
            elif self._watcher.ended or clock() >= end:
                return
            elif clock() >= bookmark_at:
                yield self._bookmark()
                bookmark_at = self._next_bookmark(clock(), end)
            else:
                await self._watcher.wait(until=min(end, bookmark_at))

    def _next_bookmark(self, now: float, end: float) -> float:
        if not self._query.bookmarks:
            return end
        last = end - BOOKMARK_BEFORE_END_SECONDS
        following = now + self._bookmark_seconds
        return min(following, last) if now < last else max(following, end)

    def _bookmark(self, annotations: Body | None = None) -> bytes:
        metadata: Body = {"resourceVersion": str(self._model.store.version)}
        if annotations:
            metadata["annotations"] = annotations
        body: Body = {
            "kind": self._resource.kind,
            "apiVersion": self._resource.api_version,
            "metadata": metadata,
        }
        if self._resource.kind == "Pod":  # a Go server sends an empty required list as null
            body |= {"spec": {"containers": None}, "status": {}}
        return event_line("BOOKMARK", _encode(body))


def _flag(text: str | None) -> bool:
    return text is not None and text.lower() in {"true", "1", ""}
