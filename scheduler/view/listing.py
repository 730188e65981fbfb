"""The pods of one scheduler name: all of them in pages, then each change.

The API server selects them by `spec.schedulerName`, so that pods of others are never sent. Of each
page only the rows are kept, so memory is bounded by one page of pods and a row for each pod.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from scheduler.kube.depth import shallow
from scheduler.kube.errors import Forbidden, KubeRefused, KubeTooDeep, VersionTooOld
from scheduler.kube.pages import MOST_PAGE_BYTES, pages
from scheduler.kube.session import KubeSession
from scheduler.kube.wire import (
    PODS,
    Added,
    Bookmark,
    Deleted,
    Modified,
    Pod,
    WatchError,
    WatchEvent,
)
from scheduler.view.connection import ViewError, right_missing
from scheduler.view.row import Row
from scheduler.view.safe_text import shown

# A list of very many pods may take longer than the server keeps its state for the next page.
_TRIES: Final = 3
_PAGE_SECONDS: Final = 60.0
_WATCH_SECONDS: Final = 300
_BAD_REQUEST: Final = 400
_LONGEST: Final = 80


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which pods: those of a scheduler name, in one namespace or ("") in all, with these labels."""

    scheduler_name: str
    namespace: str
    labels: str

    @property
    def path(self) -> str:
        """The path of the list."""
        return f"/api/v1/namespaces/{self.namespace}/pods" if self.namespace else "/api/v1/pods"

    @property
    def query(self) -> dict[str, str]:
        """The selectors of the list."""
        labels = {"labelSelector": self.labels} if self.labels else {}
        return {"fieldSelector": f"spec.schedulerName={self.scheduler_name}", **labels}


class Listing:
    """The rows of all pods that are wanted, by uid. `read` makes a row of a pod."""

    def __init__(self, session: KubeSession, wanted: Wanted, *, read: Callable[[Pod], Row]) -> None:
        self._session = session
        self._wanted = wanted
        self._read = read
        self._version = ""
        self.rows: dict[str, Row] = {}
        self.come = 0
        """How many rows have come while `fill` gets them."""

    async def fill(self) -> None:
        """Get all rows anew. Raises KubeError and ViewError."""
        for tries_left in reversed(range(_TRIES)):
            try:
                await self._fill()
            except VersionTooOld:
                if not tries_left:
                    raise
            except Forbidden as error:
                raise self._lacks(error, "list") from error
            except KubeRefused as error:
                if error.status != _BAD_REQUEST or not self._wanted.labels:
                    raise
                raise self._no_selector(error) from error
            else:
                return

    async def _fill(self) -> None:
        found: dict[str, Row] = {}
        async with aclosing(pages(self._ask, PODS.page, query=self._wanted.query)) as listed:
            async for page in listed:
                found.update((it.metadata.uid, self._read(it)) for it in page.items or ())
                self.come = len(found)
                self._version = page.metadata.resource_version
        self.rows = found

    async def _ask(self, query: Mapping[str, str | int]) -> bytes:
        return await self._session.request(
            "GET",
            self._wanted.path,
            query=query,
            timeout=_PAGE_SECONDS,
            operation="list_pods",
            most_bytes=MOST_PAGE_BYTES,
        )

    async def changes(self) -> AsyncGenerator[tuple[Row | None, Row | None]]:
        """Each change from now on, as the rows before and after it; the rows follow. Ends when the
        rows have to be got anew. Raises KubeError and ViewError.
        """
        query = self._wanted.query | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        try:
            async with aclosing(self._session.stream(self._wanted.path, query=query)) as lines:
                async for line in lines:
                    match _event(line):
                        case Added(object=pod) | Modified(object=pod):
                            yield self._put(pod)
                        case Deleted(object=pod):
                            yield self.rows.pop(pod.metadata.uid, None), None
                        case Bookmark():
                            pass
                        case WatchError():
                            return
        except VersionTooOld:
            return
        except Forbidden as error:
            raise self._lacks(error, "watch") from error

    def _put(self, pod: Pod) -> tuple[Row | None, Row]:
        uid, new = pod.metadata.uid, self._read(pod)
        old, self.rows[uid] = self.rows.get(uid), new
        return old, new

    def _lacks(self, error: Forbidden, verb: str) -> ViewError:
        return right_missing(error, verb, self._wanted.namespace)

    def _no_selector(self, error: KubeRefused) -> ViewError:
        """The selector is the only part of the request that the user has written."""
        given = shown(self._wanted.labels)[:_LONGEST]
        expected = "expected a label selector such as app=web,tier!=test"
        return ViewError(f"-l: {given!r}: {expected} ({shown(str(error))})")


def _event(line: bytes) -> WatchEvent[Pod]:
    """The event of a line, also if something in it is nested deeply, which nobody reads."""
    try:
        return PODS.event(line)
    except KubeTooDeep:
        return PODS.event(shallow(line))
