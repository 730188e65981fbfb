"""Where containers of our pods may run, by Node, and who waits for them to be gone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress

from scheduler.core.naming import JOB_ID, NODES
from scheduler.kube.wire import Pod


class Presence:
    """An index of the pods that are on a Node and have not finished, kept by the watch. A pod that
    somebody else put there stays for good, so waiting for it would help nobody: it is left out. Its
    annotations say who did, or, where its owner took them away, that Slurm has a job for it.

    `binding` holds pod uid to Node of bindings that were sent and that the watch does not show yet:
    such a pod may run there already.
    """

    def __init__(self, *, binding: dict[str, str]) -> None:
        self._binding = binding
        self._there: set[str] = set()
        self._node: dict[str, str] = {}
        self._unmarked: set[str] = set()
        self._going: set[str] = set()
        self._on: dict[str, set[str]] = defaultdict(set)
        self._waits: dict[str, set[asyncio.Event]] = defaultdict(set)

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """The watch has shown a pod's newer state; `new` is None when it is gone."""
        pod = new or old
        if pod is None:
            return
        uid = pod.metadata.uid
        node = pod.spec.node_name
        if new is None:
            self._there.discard(uid)
        else:
            self._there.add(uid)
        if new is None or node:
            self._binding.pop(uid, None)
        if new is None or not node or pod.finished:
            self._leave(uid)
        else:
            self._mark(uid, known=uid in self._node, marked=_placed_by_us(pod))
            self._node[uid] = node
            self._on[node].add(uid)
            if pod.metadata.deletion_timestamp is not None:
                self._going.add(uid)

    def _mark(self, uid: str, *, known: bool, marked: bool) -> None:
        if marked:
            self._unmarked.discard(uid)
        elif not known:
            self._unmarked.add(uid)

    def on(self, nodes: Iterable[str], *, has_job: Callable[[str], bool]) -> frozenset[str]:
        """The uids of all pods of ours that may have containers on one of these Nodes."""
        wanted = frozenset(nodes)
        present = {uid for node in wanted for uid in self._on.get(node, ())}
        found = {uid for uid in present if uid not in self._unmarked or has_job(uid)}
        return frozenset(found.union(uid for uid, it in self._binding.items() if it in wanted))

    def node_of(self, uid: str) -> str | None:
        """The Node where containers of the pod may run."""
        return self._node.get(uid) or self._binding.get(uid)

    def knows(self, uid: str) -> bool:
        """Whether there is a pod of that uid, wherever it is."""
        return uid in self._there

    def goes(self, uid: str) -> bool:
        """Whether the pod is on a Node and being deleted, which nothing takes back."""
        return uid in self._going

    async def one_leaves(self, uids: Iterable[str], *, seconds: float) -> None:
        """Return when one of these pods has gone or finished, at the latest after `seconds`."""
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
        self._unmarked.discard(uid)
        self._going.discard(uid)
        node = self._node.pop(uid, None)
        if node is not None:
            self._on[node].discard(uid)
            if not self._on[node]:
                del self._on[node]
        for news in self._waits.get(uid, ()):
            news.set()

    def _forget_wait(self, uid: str, news: asyncio.Event) -> None:
        self._waits[uid].discard(news)
        if not self._waits[uid]:
            del self._waits[uid]


def _placed_by_us(pod: Pod) -> bool:
    return JOB_ID in pod.metadata.annotations or NODES in pod.metadata.annotations
