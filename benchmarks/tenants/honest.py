"""The tenant that is measured: a few pods each second, each from its creation to its Node."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from benchmarks.main_path.figures import Latency
from tests.support import pods
from tests.support.history import History
from tests.support.kube import Kube

_GRACE_SECONDS: Final = 0
_LOOK_SECONDS: Final = 0.05


@dataclass(frozen=True, slots=True)
class Served:
    """What became of the pods of one phase. Seconds are from the request that created a pod until
    the watch showed its Node.
    """

    created: int
    bound: int
    latency: Latency

    @property
    def missing(self) -> int:
        """The number of pods that had no Node at the end of the phase and of the wait after it."""
        return self.created - self.bound


@dataclass(slots=True)
class HonestTenant:
    """Creates `per_second` pods in its own namespace and deletes each one that has a Node."""

    kube: Kube
    namespace: str
    per_second: float
    patience_seconds: float = 60.0
    _created: dict[str, float] = field(default_factory=dict)
    _bound: dict[str, float] = field(default_factory=dict)
    _all_created: bool = False

    async def work(self, phase: str, *, seconds: float) -> Served:
        """Create pods for so many seconds, then wait until all have a Node."""
        self._created.clear()
        self._bound.clear()
        self._all_created = False
        history = History(self.kube, self.namespace)
        async with history.following():
            deleting = asyncio.create_task(self._delete_bound(history), name="honest deletions")
            try:
                await self._create(phase, seconds=seconds)
                self._all_created = True
                await asyncio.wait({deleting}, timeout=self.patience_seconds)
            finally:
                deleting.cancel()
                await asyncio.gather(deleting, return_exceptions=True)
        took = [at - self._created[name] for name, at in self._bound.items()]
        return Served(len(self._created), len(took), Latency.of(took or [float("inf")]))

    async def _create(self, phase: str, *, seconds: float) -> None:
        """Create pods at a steady pace: a slow request does not delay the next pod."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(int(seconds * self.per_second)):
                await asyncio.sleep(began + number / self.per_second - time.monotonic())
                group.create_task(self._create_one(f"{phase}-{number}"))

    async def _create_one(self, name: str) -> None:
        self._created[name] = time.monotonic()
        pod = pods.pod(name, cpus="1", memory="100Mi", grace=_GRACE_SECONDS)
        await self.kube.create("pods", pod, namespace=self.namespace)

    async def _delete_bound(self, history: History) -> None:
        """Delete each pod that has a Node, so that the nodes never fill up: the scheduler is to be
        measured, not a queue. Returns when all pods of the phase have had a Node.
        """
        while not self._all_created or len(self._bound) < len(self._created):
            for name in self._created.keys() - self._bound.keys():
                seen = next((it for it in history.of(name) if pods.node_of(it.pod)), None)
                if seen is not None:
                    self._bound[name] = seen.at
                    await self.kube.delete(
                        "pods", name, namespace=self.namespace, grace_seconds=_GRACE_SECONDS
                    )
            await asyncio.sleep(_LOOK_SECONDS)
