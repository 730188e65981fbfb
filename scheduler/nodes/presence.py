"""Where containers of our pods may run, by Node, and who waits until they are gone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from scheduler.core.naming import JOB_ID, NODES
from scheduler.kube.wire import Pod


@dataclass(slots=True)
class _Placed:
    """A pod on a Node. `marked` says that its annotations claim that we bound it; anybody can write
    them. `proven` says that we did, as shown by our own binding or by a job of ours.
    """

    node: str
    marked: bool
    proven: bool = False
    leaves_at: datetime | None = None
    uncovered_since: float | None = None


class Presence:
    """An index of our pods that are on a Node and have not finished, fed by the watch. A pod that
    somebody else bound stays as long as it likes, so nobody should wait for it: it is left out. Its
    annotations tell who bound it; if its author removed them, a job of Slurm's for it does.

    `binding` maps pod uid to Node for bindings that were sent but that the watch does not show yet:
    such a pod may run there already.
    """

    def __init__(self, *, binding: dict[str, str]) -> None:
        self._binding = binding
        self._there: set[str] = set()
        self._placed: dict[str, _Placed] = {}
        self._on: dict[str, set[str]] = defaultdict(set)
        self._waits: dict[str, set[asyncio.Event]] = defaultdict(set)

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """The watch has shown a pod's newer state; `new` is None if it is gone."""
        pod = new or old
        if pod is None:
            return
        uid, node = pod.metadata.uid, pod.spec.node_name
        if new is None:
            self._there.discard(uid)
        else:
            self._there.add(uid)
        sent = self._binding.pop(uid, "") if new is None or node else ""
        if new is None or not node or pod.finished:
            self._leave(uid)
        else:
            self._place(pod, bound_by_us=sent == node)

    def _place(self, pod: Pod, *, bound_by_us: bool) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        placed = self._placed.setdefault(uid, _Placed(node, marked=_marked(pod)))
        placed.marked = placed.marked or _marked(pod)
        placed.proven = placed.proven or bound_by_us
        placed.leaves_at = pod.metadata.deletion_timestamp
        self._on[node].add(uid)

    def on(self, nodes: Iterable[str], *, has_job: Callable[[str], bool]) -> frozenset[str]:
        """The uids of all our pods that may have containers on one of these Nodes."""
        wanted = frozenset(nodes)
        present = {uid for node in wanted for uid in self._on.get(node, ())}
        found = {uid for uid in present if self._placed[uid].marked or has_job(uid)}
        return frozenset(found.union(uid for uid, it in self._binding.items() if it in wanted))

    def node_of(self, uid: str) -> str | None:
        """The Node where containers of the pod may run; None if there is none."""
        placed = self._placed.get(uid)
        return self._binding.get(uid) if placed is None else placed.node

    def knows(self, uid: str) -> bool:
        """Whether a pod with this uid exists, on any Node or none."""
        return uid in self._there

    def prove(self, uid: str) -> None:
        """A job of ours has held this pod's Node for it, which proves that we bound it."""
        if uid in self._placed:
            self._placed[uid].proven = True

    def is_proven(self, uid: str) -> bool:
        """Whether we have more than its annotations to show that we bound the pod."""
        placed = self._placed.get(uid)
        return uid in self._binding if placed is None else placed.proven

    def leaves_at(self, uid: str) -> datetime | None:
        """When a pod that is being deleted must be gone; None if it is not."""
        placed = self._placed.get(uid)
        return None if placed is None else placed.leaves_at

    def uncovered_since(self, uid: str, now: float) -> float:
        """Since when no job is known to hold the pod's Node for it; starts at `now`."""
        placed = self._placed.get(uid)
        if placed is None:
            return now
        if placed.uncovered_since is None:
            placed.uncovered_since = now
        return placed.uncovered_since

    def covered(self, uid: str) -> None:
        """A job holds the pod's Node for it."""
        if uid in self._placed:
            self._placed[uid].uncovered_since = None

    async def one_leaves(self, uids: Iterable[str], *, seconds: float) -> None:
        """Return when one of these pods is gone or finished, or after `seconds`."""
        news = asyncio.Event()
        watched = tuple(uids)
        for uid in watched:
            self._waits[uid].add(news)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await news.wait()
        finally:
            for uid in watched:
                self._forget_wait(uid, news)

    def _leave(self, uid: str) -> None:
        placed = self._placed.pop(uid, None)
        if placed is not None:
            self._on[placed.node].discard(uid)
            if not self._on[placed.node]:
                del self._on[placed.node]
        for news in self._waits.get(uid, ()):
            news.set()

    def _forget_wait(self, uid: str, news: asyncio.Event) -> None:
        self._waits[uid].discard(news)
        if not self._waits[uid]:
            del self._waits[uid]


def _marked(pod: Pod) -> bool:
    return JOB_ID in pod.metadata.annotations or NODES in pod.metadata.annotations
