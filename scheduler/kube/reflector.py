"""List and watch: keeps a store in step with the API server, for ever.

There are three nested loops, and each ends for its own reasons:

* `run` never ends. After a failure it pauses and starts again with a list.
* `_follow` makes a list and then one watch after another. It ends when only a new list helps: after
  a 410, an answer that was not understood, or a cut connection.
* `_watch` is one watch request, and ends when the server closes it.

The semantics are client-go's, with one exception: client-go continues the watch after a cut
connection. We list again, because the server may have been restored from a backup in the meantime.
A connection that stays silent counts as cut.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar, assert_never

import structlog

from groundwork.pauses import in_chunks, with_pauses
from scheduler.kube.depth import decoded
from scheduler.kube.errors import (
    KubeError,
    KubeGarbled,
    KubeInterrupted,
    KubeTooLarge,
    KubeUnreachable,
    TooMany,
    Unauthorized,
    VersionTooOld,
    WentBackError,
    refused,
)
from scheduler.kube.pages import MOST_PAGE_BYTES, PageSize
from scheduler.kube.session import WATCH_IDLE_SECONDS, KubeSession
from scheduler.kube.store import Change, Named, Store
from scheduler.kube.wire import (
    Added,
    Bookmark,
    Decode,
    Deleted,
    ListMeta,
    Modified,
    WatchError,
    WatchEvent,
    pieces,
)
from scheduler.observe.clock import monotonic

T = TypeVar("T", bound=Named)
OnChange = Callable[[T | None, T | None], None]
"""Called on the loop for each change, with an object's former and new state. It must not block."""

log = structlog.get_logger(__name__)

# The pauses are client-go's.
FIRST_SECONDS = 0.8
LONGEST_SECONDS = 30.0
HEALTHY_SECONDS = 120.0
LIST_SECONDS = 60.0
BEHIND_SECONDS = 60.0  # a server that shows an older state for this long was restored from a backup
# If a list lacks an object by mistake, no event repairs it while the object does not change. So the
# mistake lasts until the next list: this long, plus the rest of the running watch.
LIST_AGAIN_SECONDS = 600.0
BREATHE_EVERY = 500  # changes, or objects of a list, before other tasks get a turn
# JSON decoded before other tasks get a turn. The hostile kind takes up to 20 ms for a megabyte, and
# one object, which has up to 1.5 MB, is decoded in one turn.
TURN_BYTES = 256 * 1024


class Backoff:
    """Exponential pauses, each longer by a random part of itself. After HEALTHY_SECONDS without a
    failure they start again with the shortest.
    """

    def __init__(self) -> None:
        self._next = 0.0
        self._last_at = -math.inf

    def next(self) -> float:
        """The next pause, in seconds."""
        now = monotonic()
        if now - self._last_at > HEALTHY_SECONDS:
            self._next = FIRST_SECONDS
        pause = self._next * (1.0 + random.random())  # noqa: S311 - not cryptography
        self._next = min(self._next * 2.0, LONGEST_SECONDS)
        self._last_at = now + pause
        return pause


class ReflectorMetrics(Protocol):
    """Receives what client-go's reflector metrics count; the first argument is the resource."""

    def list_began(self, resource: str, /) -> None:
        """A list was begun."""

    def list_ended(self, resource: str, /, *, seconds: float, items: int) -> None:
        """A list has succeeded; `seconds` covers all its pages."""

    def watch_began(self, resource: str, /) -> None:
        """A watch was begun."""

    def watch_ended(self, resource: str, /, *, seconds: float, events: int) -> None:
        """A watch has ended, for whatever reason; `events` includes bookmarks."""


class _NoMetrics:
    """For a reflector whose metrics nobody reads."""

    def list_began(self, resource: str, /) -> None: ...

    def list_ended(self, resource: str, /, *, seconds: float, items: int) -> None: ...

    def watch_began(self, resource: str, /) -> None: ...

    def watch_ended(self, resource: str, /, *, seconds: float, events: int) -> None: ...


class _BehindError(KubeInterrupted):
    """The server has not yet reached the version from which the watch is to continue."""


class _RelistError(Exception):
    """The watch cannot continue from where it was, and a new list is needed."""

    def __init__(self, error: KubeError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(frozen=True, slots=True)
class _Page(Generic[T]):
    """One page of a list, decoded, and the size of its JSON."""

    metadata: ListMeta
    items: list[T]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """The objects that the API server lists at `path`, and `decode` decodes, for example
    `wire.PODS`. Metrics, errors and the operations of the session call them `name`. `query` may
    hold selectors.
    """

    name: str
    path: str
    decode: Decode[T]
    query: Mapping[str, str] = field(default_factory=dict)

    def within(self, namespaces: Collection[str]) -> tuple[Resource[T], ...]:
        """The objects of these namespaces, one resource for each. Without any, those of all
        namespaces, as one resource.
        """
        api, plural = self.path.rsplit("/", 1)
        paths = [f"{api}/namespaces/{namespace}/{plural}" for namespace in namespaces]
        return tuple(replace(self, path=path) for path in paths or [self.path])


class Reflector(Generic[T]):
    """Keeps `store` in step with one resource, and calls `on_change` for each change of an object.

    `last_event_at` is the monotonic time of the last list, event or bookmark. `synced` is set once
    the changes of the first list have been reported. If the server was restored from a backup,
    `run` raises WentBackError.
    """

    def __init__(
        self,
        session: KubeSession,
        resource: Resource[T],
        *,
        store: Store[T],
        on_change: OnChange[T],
        metrics: ReflectorMetrics | None = None,
    ) -> None:
        self._session = session
        self._resource = resource
        self.store = store
        self._on_change = on_change
        self._backoff = Backoff()
        self._heard = 0  # events of watches, bookmarks included
        self._reported = 0  # changes
        self._metrics = metrics or _NoMetrics()
        self.name = resource.name
        self.synced = asyncio.Event()
        self.last_event_at: float | None = None
        self._listing: list[T] = []
        self._listed_at = 0.0
        self._doubted = False
        self._behind_since: dict[str, float] = {}
        self._waiting: asyncio.Timeout | None = None

    @property
    def objects(self) -> int:
        """How many objects are kept, with those of a list that has begun."""
        return len(self.store) + len(self._listing)

    def doubt(self) -> None:
        """Note that the last list was wrong. The running watch ends, and a new list is made."""
        if self._waiting is not None and not self._doubted:
            self._waiting.reschedule(asyncio.get_running_loop().time())
        self._doubted = True

    async def run(self) -> None:
        """List, watch, and report each change to `on_change`. Never returns; cancel it to end it.
        Raises WentBackError.
        """
        while True:
            try:
                await self._follow()
            except _RelistError as ended:
                await self._pause("relist", ended.error)
            except KubeError as error:
                await self._pause("list", error)

    async def _follow(self) -> None:
        await self._list()
        self.synced.set()
        first = True
        while True:
            began = monotonic()
            try:
                if not first:
                    await self._compare()
                first = False
                await self._request()
            except (_BehindError, TooMany) as error:
                await self._pause("watch", error)  # the known version is still valid
            except KubeError as error:
                # A server that was away may be another one, or restored to an earlier state. Even
                # then it soon reaches our version: 200 Nodes alone write 20 times a second.
                raise _RelistError(error) from error
            else:
                await self._calm(began)
            if self._doubted:
                raise _RelistError(KubeGarbled("the last list lacked what is there"))
            if monotonic() - self._listed_at > LIST_AGAIN_SECONDS:
                await self._list()

    async def _report(self, changes: Iterable[Change[T]]) -> None:
        for old, new in changes:
            self._on_change(old, new)
            self._reported += 1
            if self._reported % BREATHE_EVERY == 0:
                await asyncio.sleep(0)

    async def _request(self) -> None:
        began, before = monotonic(), self._heard
        self._metrics.watch_began(self.name)
        try:
            await self._watch()
        finally:
            events = self._heard - before
            self._metrics.watch_ended(self.name, seconds=monotonic() - began, events=events)

    async def _watch(self) -> None:
        batches = self._session.batches(
            self._resource.path,
            query={
                **self._resource.query,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": self.store.resource_version,
                # random, so that watches that begin together do not end together
                "timeoutSeconds": random.randint(300, 600),  # noqa: S311 - not cryptography
            },
            idle_seconds=WATCH_IDLE_SECONDS,
            operation=f"watch_{self.name}",
        )
        async with aclosing(batches):
            read = 0
            while (lines := await self._next(batches)) is not None:
                for line in lines:
                    event = await decoded(self._resource.decode.event, line)
                    await self._report(self._take(event))
                    read = await _breathe(read + len(line))

    async def _next(self, batches: AsyncGenerator[tuple[bytes, ...]]) -> tuple[bytes, ...] | None:
        """The next lines; None at the end of the watch, or once `doubt` was called."""
        if self._doubted:
            return None
        try:
            async with asyncio.timeout(None) as self._waiting:
                return await anext(batches, None)
        except TimeoutError:
            return None
        finally:
            self._waiting = None

    async def _compare(self) -> None:
        """Check that the server is not behind the last known version. Otherwise it would accept the
        watch and stay silent until it has caught up. Raises _BehindError or WentBackError.
        """
        page = await self._page({**self._resource.query, "limit": 1})
        there = page.metadata.resource_version
        if not self._goes_on("watch", not _before(there, self.store.resource_version)):
            raise _BehindError("the server shows an older state than before")

    def _goes_on(self, doing: str, forward: bool) -> bool:
        """Note whether an answer to `doing` showed a state no older than the known one (`forward`),
        and return that. Lists do not come from the server's cache, so none should be older, but a
        single one may be by mistake. Raises WentBackError if all are older for BEHIND_SECONDS.
        """
        if forward:
            self._behind_since.pop(doing, None)
            return True
        now = monotonic()
        if now - self._behind_since.setdefault(doing, now) < BEHIND_SECONDS:
            return False
        raise WentBackError(
            f"{self.name} are older than the API server has shown before: it was restored from a "
            "backup"
        )

    async def _newer(self, items: list[T], version: str) -> bool:
        """Whether neither the list nor an object in it is older than the known state. The list's
        version alone is not enough. A restored server soon reaches the old version again, but a
        restored object keeps its older version.
        """
        if _before(version, self.store.resource_version):
            return False
        async for some in in_chunks(items, size=BREATHE_EVERY):
            if any(map(self._is_older, some)):
                return False
        return True

    def _is_older(self, item: T) -> bool:
        known = self.store.get(item.metadata.uid)
        return known is not None and _before(
            item.metadata.resource_version, known.metadata.resource_version
        )

    async def _list(self) -> None:
        """List all objects, and report what has changed."""
        began = monotonic()
        self._metrics.list_began(self.name)
        self._doubted = False
        try:
            items, version = await self._pages()
            if not self._goes_on("list", await self._newer(items, version)):
                raise KubeInterrupted("the list is older than what the server has shown before")
            self._listed_at = monotonic()
            seconds = self._listed_at - began
            self._metrics.list_ended(self.name, seconds=seconds, items=len(items))
            # In one turn of the event loop 30 000 objects took 60 ms (measured).
            async for changes in with_pauses(self.store.replacing(items), every=BREATHE_EVERY):
                for old, new in changes:
                    self._on_change(old, new)
            self._seen(version)
        finally:
            self._listing = []

    async def _pages(self) -> tuple[list[T], str]:
        """All objects of one consistent list, and its version. The list does not come from the
        server's cache, which may be behind.
        """
        items = self._listing
        query: dict[str, str | int] = dict(self._resource.query)
        size = PageSize()
        while True:
            try:
                page = await self._page(query | {"limit": size.objects})
            except KubeTooLarge:
                if not size.shrink():
                    raise
                continue
            except VersionTooOld:
                if "continue" not in query:
                    raise
                # the token expired: list all in one page
                page = await self._page(self._resource.query)
                return page.items, page.metadata.resource_version
            items += page.items
            if not page.metadata.continue_:
                return items, page.metadata.resource_version
            query["continue"] = page.metadata.continue_
            size.came(page.size)

    async def _page(self, query: Mapping[str, str | int]) -> _Page[T]:
        body = await self._session.request(
            "GET",
            self._resource.path,
            query=query,
            timeout=LIST_SECONDS,
            operation=f"list_{self.name}",
            most_bytes=MOST_PAGE_BYTES,
        )
        page = await decoded(pieces, body)
        _check_version(page.metadata.resource_version)
        items, read = list[T](), 0
        for piece in page.items or ():
            item = self._resource.decode.item(piece)
            _check_stored(item)
            items.append(item)
            read = await _breathe(read + memoryview(piece).nbytes)
        return _Page(page.metadata, items, len(body))

    def _take(self, event: WatchEvent[T]) -> tuple[Change[T], ...]:
        match event:
            case Added(object=item) | Modified(object=item):
                _check_stored(item)
                self._came(item.metadata.resource_version)
                return self.store.apply(item)
            case Deleted(object=item):
                _check_stored(item)
                self._came(item.metadata.resource_version)
                return self.store.remove(item.metadata.uid, last=item)
            case Bookmark(object=mark):
                _check_version(mark.metadata.resource_version)
                self._came(mark.metadata.resource_version)
                return ()
            case WatchError(object=status):
                raise refused(
                    status.code,
                    reason=status.reason,
                    message=status.message,
                    retry_after=status.retry_after_seconds,
                )
            case _:
                assert_never(event)

    def _came(self, version: str) -> None:
        """An event of the watch, or a bookmark, with this version."""
        self._heard += 1
        self._seen(version)

    def _seen(self, version: str) -> None:
        self.store.resource_version = version
        self.last_event_at = monotonic()

    async def _calm(self, began: float) -> None:
        """Pause after a short watch: a server that closes a watch at once must not be asked again
        at once.
        """
        if monotonic() - began < FIRST_SECONDS:
            await asyncio.sleep(self._backoff.next())

    async def _pause(self, doing: str, error: KubeError) -> None:
        seconds = max(self._backoff.next(), error.retry_after or 0.0)
        details = {
            "reflector": self.name,
            "doing": doing,
            "outcome": error.outcome,
            "error": str(error),
            "pause_s": round(seconds, 3),
        }
        if isinstance(error, KubeUnreachable | Unauthorized):
            log.debug("kubernetes is away", **details)  # KubeLink logs it once for all
        else:
            log.warning("kubernetes watch interrupted", **details)
        await asyncio.sleep(seconds)


async def _breathe(read: int) -> int:
    """Let other tasks have a turn if so many bytes were read since their last one. Returns how many
    were read since then.
    """
    if read < TURN_BYTES:
        return read
    await asyncio.sleep(0)
    return 0


def _check_stored(item: Named) -> None:
    """Raises KubeGarbled for an object that no API server has stored."""
    if not item.metadata.uid:
        raise KubeGarbled("an object without a uid")
    _check_version(item.metadata.resource_version)


def _check_version(version: str) -> None:
    """Raises KubeGarbled if there is no version: a watch without one does not report earlier
    deletions.
    """
    if not version:
        raise KubeGarbled("a list or an object without a resourceVersion")


def _before(one: str, other: str) -> bool:
    """Whether version `one` is certainly before `other`; False if this cannot be known."""
    if not (_is_number(one) and _is_number(other)):
        return False
    left, right = one.lstrip("0"), other.lstrip("0")
    # Python refuses to make an int of a text of more than 4300 digits.
    return (len(left), left) < (len(right), right)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal()
