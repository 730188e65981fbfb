"""What all pages show: a line for each pod and each node, made anew only when it has changed.

It works only while somebody looks. It reads the caches of the process, in short turns of the loop,
and asks Slurm for nothing but its list of nodes, at most every NODES_SECONDS however many look.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from scheduler.core.gang_sources import Membership
from scheduler.kube.wire import Pod
from scheduler.page.ledger import Ledger
from scheduler.page.node_line import NodeAmounts, amounts_allocated, mib, node_line
from scheduler.page.pod_line import gone_line, pod_line
from scheduler.page.turns import ShortTurns
from scheduler.service.shown import Shown
from scheduler.view.row import IN_QUEUE, Names, Row, row_of
from slurmapi import SlurmError, SlurmNode

REFRESH_SECONDS: Final = 1.0
NODES_SECONDS: Final = 15.0
MOST_PODS: Final = 20_000
MOST_NODES: Final = 20_000


@dataclass(frozen=True, slots=True)
class _Entry:
    """A pod as it was when its line was made; its parts are compared by identity."""

    pod: Pod
    member: Membership | None
    row: Row


@dataclass(frozen=True, slots=True)
class _NodeEntry:
    """A node as it was when its line was made. `jobs` is what other jobs held in that record."""

    record: SlurmNode
    edition: int
    pods: NodeAmounts
    jobs: NodeAmounts


class Board:
    """The lines. `whole` says that all pods and nodes are among them."""

    def __init__(self, shown: Shown, names: Names, *, clock: Callable[[], float]) -> None:
        self._shown = shown
        self._names = names
        self._clock = clock
        self._busy = asyncio.Lock()
        self._fresh_until = float("-inf")
        self._asked_until = float("-inf")
        self._renewing: asyncio.Task[None] | None = None
        self._entries: dict[str, _Entry] = {}
        self._nodes: dict[str, _NodeEntry] = {}
        self._held: dict[str, NodeAmounts] = {}
        self._namespaces: Counter[str] = Counter()
        self.pods = Ledger()
        self.nodes = Ledger()
        self.whole = True

    @property
    def namespaces(self) -> Collection[str]:
        """The namespaces that have pods."""
        return self._namespaces.keys()

    @property
    def nodes_age(self) -> float | None:
        """How many seconds old Slurm's list of nodes is; None before the first."""
        records = self._shown.records
        return None if records.listed is None else self._clock() - records.listed_at

    def rows(self, namespace: str) -> list[Row]:
        """The rows of a namespace's pods."""
        return [it.row for it in self._entries.values() if it.row.namespace == namespace]

    def all_rows(self) -> list[Row]:
        """The rows of all pods."""
        return [it.row for it in self._entries.values()]

    async def refresh(self) -> None:
        """Bring all lines up to date, unless that was done a moment ago. Those who ask meanwhile
        wait for the same work. May be cancelled: what is not done yet is done by the next.
        """
        async with self._busy:
            if self._clock() < self._fresh_until:
                return
            turns = ShortTurns()
            await self._refresh_pods(turns)
            await self._refresh_nodes(turns)
            self._fresh_until = self._clock() + REFRESH_SECONDS

    async def renew_nodes(self) -> None:
        """Ask Slurm for its nodes if the last answer is too old, and nobody has asked a moment ago.
        If it does not answer, the page shows how old the last answer is.
        """
        if self._clock() < self._asked_until:
            return
        self._asked_until = self._clock() + NODES_SECONDS
        self._renewing = asyncio.create_task(self._renew(), name="nodes for the page")
        await asyncio.shield(self._renewing)  # who asked may leave

    async def _renew(self) -> None:
        with suppress(SlurmError):
            await self._shown.records.renew(older_than=NODES_SECONDS)

    async def _refresh_pods(self, turns: ShortTurns) -> None:
        for uid in tuple(self._entries):
            if uid not in self._shown.pods:
                self._drop(uid)
            await turns.item()
        for pod in self._shown.pods:
            self._see(pod)
            await turns.item()
        self.whole = len(self._shown.pods) <= MOST_PODS

    def _see(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        known, member = self._entries.get(uid), self._shown.gangs.of(uid)
        if known is not None and known.pod is pod and known.member is member:
            return
        if known is None and len(self._entries) >= MOST_PODS:
            return
        row = row_of(pod, self._names)
        self._forget(uid)
        self._entries[uid] = _Entry(pod, member, row)
        self._namespaces[row.namespace] += 1
        self._hold(row, 1)
        self.pods.put(uid, pod_line(pod, row, member), scope=row.namespace)

    def _drop(self, uid: str) -> None:
        self._forget(uid)
        self.pods.remove(uid, gone_line(uid))

    def _forget(self, uid: str) -> None:
        known = self._entries.pop(uid, None)
        if known is None:
            return
        self._hold(known.row, -1)
        self._namespaces[known.row.namespace] -= 1
        if not self._namespaces[known.row.namespace]:
            del self._namespaces[known.row.namespace]

    def _hold(self, row: Row, sign: int) -> None:
        """Count what the pod holds of its Node, or (-1) no longer."""
        if not row.node or row.state not in IN_QUEUE:
            return
        held = self._held.get(row.node, NodeAmounts())
        found = NodeAmounts(
            held.cpus + sign * row.cpus,
            held.memory_mib + sign * mib(row.memory_bytes),
            held.gpus + sign * row.gpus,
        )
        self._held[row.node] = found
        if found == NodeAmounts():
            del self._held[row.node]

    async def _refresh_nodes(self, turns: ShortTurns) -> None:
        records = self._shown.records
        listed = [it.name for it in records.listed or ()][:MOST_NODES]
        there = set(listed)
        for name in [it for it in self._nodes if it not in there]:
            del self._nodes[name]
            self.nodes.remove(name, gone_line(name))
        for name in listed:
            record = records.record(name)
            if record is not None:
                self._see_node(record)
            await turns.item()
        self.whole = self.whole and len(records.listed or ()) <= MOST_NODES

    def _see_node(self, record: SlurmNode) -> None:
        known, edition = self._nodes.get(record.name), self._shown.nodes.edition
        target = self._shown.nodes.kube_node(record.name)
        pods = self._held.get(target, NodeAmounts())
        if known is not None and known.record is record:
            if known.pods == pods and known.edition == edition:
                return
            jobs = known.jobs
        else:
            jobs = amounts_allocated(record).less(pods)
        self._nodes[record.name] = _NodeEntry(record, edition, pods, jobs)
        line = node_line(record, target, pods=pods, jobs=jobs)
        self.nodes.put(record.name, line, scope="")
