"""Records every state of the pods of one namespace, for checks of states that do not last."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import aiohttp

from tests.support.kube import Kube, KubeAnswerError, Object

_RETRY_SECONDS = 0.1
_CONNECTED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Seen:
    """One state of one pod; `at` is monotonic, `gone` marks the last one before removal."""

    at: float
    pod: Object
    gone: bool


@dataclass(slots=True)
class History:
    """Follows a namespace's pods by list and watch, across restarts of the API server."""

    kube: Kube
    namespace: str
    _seen: list[Seen] = field(default_factory=list)
    _present: dict[str, Object] = field(default_factory=dict)
    _connected: asyncio.Event = field(default_factory=asyncio.Event)
    _noted: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def changes(self) -> int:
        """How many states were seen."""
        return len(self._seen)

    async def changed(self, *, since: int, seconds: float) -> None:
        """Wait until more states than `since` were seen, but not longer than `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.changes == since:
                    self._noted.clear()
                    await self._noted.wait()

    def of(self, name: str) -> list[Seen]:
        """All states of the pods of that name, oldest first."""
        return [it for it in self._seen if it.pod["metadata"]["name"] == name]

    def uids(self) -> set[str]:
        """The uids of all pods that were seen."""
        return {it.pod["metadata"]["uid"] for it in self._seen}

    def removed(self, uid: str) -> Seen | None:
        """The last state of a removed pod, None for one that still exists."""
        return next((it for it in self._seen if it.gone and it.pod["metadata"]["uid"] == uid), None)

    def when_bound(self, other: str, *, name: str) -> Object | None:
        """The state of the pod `name` at the moment when the pod `other` got its Node; None while
        `other` has no Node. One watch reports both pods, in the order of the writes.
        """
        last = None
        for seen in self._seen:
            if seen.pod["metadata"]["name"] == name:
                last = seen.pod
            elif seen.pod["metadata"]["name"] == other and "nodeName" in seen.pod["spec"]:
                return last
        return None

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Record within the block. The API server must be up when the block ends."""
        task = asyncio.create_task(self._follow(), name="history")
        try:
            yield
            # If cancelled in its TLS handshake, a connection would write after the loop closed.
            async with asyncio.timeout(_CONNECTED_SECONDS):
                await self._connected.wait()
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _follow(self) -> None:
        while True:
            try:
                await self._follow_once()
            except (KubeAnswerError, aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow_once(self) -> None:
        since = await self.kube.resource_version("pods", namespace=self.namespace)
        now = await self.kube.items("pods", namespace=self.namespace)
        self._catch_up({pod["metadata"]["uid"]: pod for pod in now})
        async with self.kube.watch("pods", namespace=self.namespace, since=since) as changes:
            self._connected.set()
            try:
                await self._note_all(changes)
            finally:
                self._connected.clear()

    async def _note_all(self, changes: AsyncIterator[tuple[str, Object]]) -> None:
        async for kind, pod in changes:
            if kind == "ERROR":
                return
            if kind != "BOOKMARK":
                self._note(pod, gone=kind == "DELETED")

    def _catch_up(self, now: dict[str, Object]) -> None:
        for uid in set(self._present) - set(now):
            self._note(self._present[uid], gone=True)
        for pod in now.values():
            self._note(pod, gone=False)

    def _note(self, pod: Object, *, gone: bool) -> None:
        uid = pod["metadata"]["uid"]
        self._seen.append(Seen(time.monotonic(), pod, gone))
        self._noted.set()
        if gone:
            self._present.pop(uid, None)
        else:
            self._present[uid] = pod
