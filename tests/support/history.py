"""Everything that was ever seen of the pods of one namespace, for what does not stay visible."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import aiohttp

from tests.support.kube import Kube, KubeAnswerError, Object

_RETRY_SECONDS = 0.1


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

    def of(self, name: str) -> list[Seen]:
        """All states of the pods of that name, oldest first."""
        return [it for it in self._seen if it.pod["metadata"]["name"] == name]

    def uids(self) -> set[str]:
        """The uids of all pods there ever were."""
        return {it.pod["metadata"]["uid"] for it in self._seen}

    def removed(self, uid: str) -> Seen | None:
        """The last state of a pod that was removed, None while it is there."""
        return next((it for it in self._seen if it.gone and it.pod["metadata"]["uid"] == uid), None)

    async def follow(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self._follow_once()
            except (KubeAnswerError, aiohttp.ClientError, TimeoutError):
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow_once(self) -> None:
        since = await self.kube.resource_version("pods", namespace=self.namespace)
        now = await self.kube.items("pods", namespace=self.namespace)
        self._catch_up({pod["metadata"]["uid"]: pod for pod in now})
        async for kind, pod in self.kube.watch("pods", namespace=self.namespace, since=since):
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
        if gone:
            self._present.pop(uid, None)
        else:
            self._present[uid] = pod
