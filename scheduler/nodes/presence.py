"""Knows, by Node, where containers of our pods may run, and who waits until they are gone."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.kube.wire import Pod
from scheduler.nodes.covers import Cover, Covers
from scheduler.nodes.vanished_pods import Left, Parted
from scheduler.state.pod_remains import Deletion, Remains, deletion_of, remains_of

# When a process has just started, only the pod itself shows who bound it, and its author can forge
# that. It is believed for this long, which is enough for pods whose job ended in the meantime.
CLAIM_SECONDS: Final = 300.0
# A deletion may give a pod any grace period, and once the pod is gone nobody can shorten it. If the
# pod's own is shorter, no more than this counts.
LONGEST_DELETION_SECONDS: Final = 3600
# Queries skip entries whose time is over, so these may stay in memory a little longer.
_SWEEP_SECONDS: Final = 30.0


@dataclass(slots=True)
class _Placed:
    """A pod on a Node. `marked` says that its annotations claim that we bound it; anybody can write
    them. `by_us` says that we did, as shown by our own binding or by a job of ours.
    """

    node: str
    marked: bool = False
    by_us: bool = False
    leaves_at: datetime | None = None
    leaving: Deletion | None = None
    uncovered_since: float | None = None


class Presence:
    """An index of our pods that are on a Node and have not finished, fed by the watch. A pod that
    somebody else bound stays as long as it likes, so nobody should wait for it: it is left out. Its
    annotations show who bound it; if its author removed them, a Slurm job for it does.

    A pod may disappear before its containers are reported to have stopped, for example if it was
    deleted by force. It stays in the index until they must have stopped, or its Node is dead. This
    process knows only the pods that it has seen disappear.

    `binding` maps pod uid to Node for bindings that were sent but that the watch does not show yet:
    such a pod may run there already.
    """

    def __init__(self, *, binding: dict[str, str], clock: Callable[[], float]) -> None:
        self._binding = binding
        self._clock = clock
        self._is_dead: Callable[[str], bool] = lambda _node: False
        self._parted = Parted()
        self._swept_at = clock()
        self._there: set[str] = set()
        self._placed: dict[str, _Placed] = {}
        self._on: dict[str, set[str]] = defaultdict(set)
        self.covers = Covers()
        self._waits: dict[str, set[asyncio.Event]] = defaultdict(set)

    def changed(self, old: Pod | None, new: Pod | None) -> None:
        """Note a pod's newer state, as the watch shows it; `new` is None if the pod is gone."""
        pod = new or old
        if pod is None:
            return
        uid, node = pod.metadata.uid, pod.spec.node_name
        if new is None:
            self._there.discard(uid)
        else:
            self._there.add(uid)
        # The API server binds no pod that is being deleted.
        settled = new is None or node or new.metadata.deletion_timestamp is not None
        sent = self._binding.pop(uid, "") if settled else ""
        remains = self._remains(pod) if new is None else None
        if not node or pod.finished or (new is None and remains is None):
            self._leave(uid)
        else:
            self._place(pod, bound_by_us=sent == node)
            if remains is not None:
                self._part(pod, remains)
        self._sweep()

    def judge_nodes(self, is_dead: Callable[[str], bool]) -> None:
        """Set `is_dead`, which says whether nothing runs on a Node any more. Nodes are read after
        this object is made, but before its first query.
        """
        self._is_dead = is_dead

    def _place(self, pod: Pod, *, bound_by_us: bool) -> None:
        uid, node = pod.metadata.uid, pod.spec.node_name
        self._parted.forget(uid)
        placed = self._placed.get(uid)
        if placed is None:
            placed = self._placed[uid] = _Placed(node)
            self._on[node].add(uid)
        placed.marked = placed.marked or _marked(pod)
        placed.by_us = placed.by_us or bound_by_us
        placed.leaves_at = pod.metadata.deletion_timestamp
        placed.leaving = deletion_of(pod, placed.leaving, now=self._clock())

    def _remains(self, pod: Pod) -> Remains | None:
        """What the pod, which is gone, has left."""
        placed, now = self._placed.get(pod.metadata.uid), self._clock()
        known = None if placed is None else placed.leaving
        return remains_of(pod, deletion_of(pod, known, now=now), now=now)

    def _part(self, pod: Pod, remains: Remains) -> None:
        """Keep a pod that is gone, because its containers may still run."""
        meta, placed = pod.metadata, self._placed[pod.metadata.uid]
        if not self._is_ours(meta.uid):
            self._leave(meta.uid)
            return
        longest = int(CLAIM_SECONDS)
        if placed.by_us:
            longest = max(pod.spec.termination_grace_period_seconds, LONGEST_DELETION_SECONDS)
        grace = min(remains.grace_seconds, longest)
        until = replace(remains, grace_seconds=grace, gone_at=self._clock()).until
        left = Left(meta.uid, meta.namespace, meta.name, until, by_us=placed.by_us)
        forgotten = self._parted.add(left)
        if forgotten is not None:
            self._leave(forgotten)

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept_at < _SWEEP_SECONDS:
            return
        self._swept_at = now
        for uid in self._parted.over(now):
            self._leave(uid)

    def on(
        self,
        nodes: Iterable[str],
        *,
        has_job: Callable[[str], bool],
        proven: bool = False,
        but: AbstractSet[str] = frozenset(),
    ) -> dict[str, str]:
        """All our pods that may have containers on one of these Nodes, by uid, with that Node,
        without those in `but`; if `proven`, only those for which `is_proven` is true.
        """
        wanted = frozenset(nodes)
        found = {
            uid: target
            for uid, target in self._binding.items()
            if target in wanted and uid not in but
        }
        for node in wanted:
            for uid in self._on.get(node, frozenset()) - but:
                placed = self._placed[uid]
                ours = placed.by_us or (not proven and (placed.marked or has_job(uid)))
                if ours and (uid in self._there or self._is_there(uid)):
                    found[uid] = node
        return found

    def node_of(self, uid: str) -> str | None:
        """The Node where containers of the pod may run; None if there is none."""
        placed = self._placed.get(uid)
        if placed is None:
            return self._binding.get(uid)
        return placed.node if uid in self._there or self._is_there(uid) else None

    def left_by(self, uid: str) -> Left | None:
        """What a vanished pod left; None if the pod exists, or if nothing of it can run."""
        left, placed = self._parted.get(uid), self._placed.get(uid)
        if left is None or placed is None or left.until <= self._clock():
            return None
        return None if self._is_dead(placed.node) else left

    def knows(self, uid: str) -> bool:
        """Whether a pod with this uid exists, on any Node or none."""
        return uid in self._there

    def prove(self, uid: str) -> None:
        """Note that a job of ours has held this pod's Node for it, which proves that we
        bound it.
        """
        if uid in self._placed:
            self._placed[uid].by_us = True

    def is_proven(self, uid: str) -> bool:
        """Whether we have more than its annotations to show that we bound the pod."""
        placed = self._placed.get(uid)
        return uid in self._binding if placed is None else placed.by_us

    def leaves_at(self, uid: str) -> datetime | None:
        """When a pod that is being deleted must be gone; None if it is not being deleted."""
        placed = self._placed.get(uid)
        return None if placed is None else placed.leaves_at

    def uncovered_since(self, uid: str, now: float) -> float:
        """Since when no job is known to hold the pod's Node for it; starts at `now`."""
        self.covers.drop(uid)
        placed = self._placed.get(uid)
        if placed is None:
            return now
        if placed.uncovered_since is None:
            placed.uncovered_since = now
        return placed.uncovered_since

    def covered(self, uid: str, by: Cover) -> None:
        """Note that a job holds the pod's Node for it."""
        self.covers.note(uid, by)
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

    def _is_there(self, uid: str) -> bool:
        """Whether the pod exists, or what it left may still run."""
        return self._parted.get(uid) is None or self.left_by(uid) is not None

    def _is_ours(self, uid: str) -> bool:
        placed = self._placed[uid]
        return placed.marked or placed.by_us

    def _leave(self, uid: str) -> None:
        self._parted.forget(uid)
        self.covers.drop(uid)
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
    return JOB_ID in pod.metadata.annotations or JOB_NODES in pod.metadata.annotations
