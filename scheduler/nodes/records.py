"""Slurm's records of its nodes, kept for as long as a decision may rely on them.

All nodes are listed every few minutes. A single node is read when an allocation on it is about to
be used and its record is too old. Neither cost grows with the number of waiting pods (I10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import structlog

from scheduler.core.node_gres import types_of
from slurmapi import SlurmClient, SlurmError, SlurmNode

log = structlog.get_logger(__name__)

# A bind relies on a record no older than this, since an operator may just have moved a comment.
RECORD_FRESH_SECONDS: Final = 30.0
_LIST_SECONDS: Final = 300.0
# Before the first list nothing is submitted, so it is retried as often as a census.
_FIRST_LIST_SECONDS: Final = 2.0
_GPU: Final = "gpu"
# States of nodes that are switched off, or are being switched on or off.
POWERED: Final = frozenset(
    {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "CLOUD"}
)
# A node of State=CLOUD keeps that flag while it is switched on.
OFF: Final = POWERED - {"CLOUD"}
# States of nodes that cannot start anything now.
AWAY: Final = frozenset({"DOWN", "FUTURE", "POWERED_DOWN"})
_AGAIN_SECONDS: Final = 15.0
# Records of nodes that are no longer in any list are dropped after this time.
_KEPT_SECONDS: Final = 4 * _LIST_SECONDS


class SlurmNodes:
    """Node records by name. `on_change` is called after each list that shows a change, and, before
    the first list, when the reason for its absence changes.
    """

    def __init__(
        self, client: SlurmClient, *, clock: Callable[[], float], on_change: Callable[[], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._on_change = on_change
        self._records: dict[str, tuple[float, SlurmNode | None]] = {}
        self._listed: Mapping[str, SlurmNode] | None = None
        self.listed_at = float("-inf")
        """When the last list came, by `clock`."""
        self._marks: frozenset[tuple[object, ...]] = frozenset()
        self._listing = asyncio.Lock()
        self._gpu_types: frozenset[str] = frozenset()
        self.first_list = asyncio.Event()
        self.trouble = ""
        """Why the last list failed; "" if it succeeded."""

    @property
    def listed(self) -> Collection[SlurmNode] | None:
        """All nodes of the last list; None before the first."""
        return None if self._listed is None else self._listed.values()

    @property
    def gpu_types(self) -> frozenset[str] | None:
        """The types of GPUs that Slurm has; None before the first list. A type is never removed: a
        waiting pod should not be read differently because a node goes and comes back.
        """
        return None if self._listed is None else self._gpu_types

    def knows(self, name: str, *, fresh: bool) -> bool:
        """Whether `record` has an answer; with `fresh`, a recent one."""
        known = self._records.get(name)
        if known is None:
            return False
        return not fresh or self._clock() - known[0] <= RECORD_FRESH_SECONDS

    def record(self, name: str) -> SlurmNode | None:
        """The node as last seen; None if Slurm does not know it or was not asked."""
        known = self._records.get(name)
        return None if known is None else known[1]

    async def learn(self, names: Iterable[str]) -> None:
        """Read these nodes if their records are not fresh; all nodes if none is known. Raises
        SlurmError.
        """
        if self._listed is None:
            await self._list()
        for name in names:
            if not self.knows(name, fresh=True):
                self._note(name, await self._client.node(name))

    def _note(self, name: str, node: SlurmNode | None) -> None:
        former = self.record(name)
        self._records[name] = (self._clock(), node)
        self._learn_types(() if node is None else (node,))
        if _mark(former) != _mark(node):
            self._on_change()

    async def renew(self, *, older_than: float) -> None:
        """List all nodes unless the last list is younger than this many seconds, or another one is
        under way. Raises SlurmError.
        """
        if self._listing.locked() or self._clock() - self.listed_at <= older_than:
            return
        await self._list(again=True)

    async def run(self) -> None:
        """List all nodes regularly, for ever; cancel it to stop."""
        while True:
            try:
                await self._list(again=True)
            except SlurmError as error:
                self._failed(str(error))
                unlisted = self._listed is None
                await asyncio.sleep(_FIRST_LIST_SECONDS if unlisted else _AGAIN_SECONDS)
            else:
                self.trouble = ""
                await asyncio.sleep(_LIST_SECONDS)

    def _failed(self, why: str) -> None:
        if why == self.trouble:
            return
        log.warning("slurm nodes are not listed", error=why)
        self.trouble = why
        if self._listed is None:
            self._on_change()  # pods that wait for the first list show the reason

    async def _list(self, *, again: bool = False) -> None:
        """List all nodes. Callers that come during a list wait for it and use its answer."""
        async with self._listing:
            if self._listed is not None and not again:
                return
            self._take(await self._client.nodes())

    def _take(self, nodes: Sequence[SlurmNode]) -> None:
        now = self._clock()
        kept = {name: it for name, it in self._records.items() if now - it[0] < _KEPT_SECONDS}
        self._records = kept | {node.name: (now, node) for node in nodes}
        first, self._listed = self._listed is None, {node.name: node for node in nodes}
        self.listed_at = now
        self._learn_types(nodes)
        self.first_list.set()
        former, self._marks = self._marks, frozenset(map(_mark, nodes))
        if first or former != self._marks:
            self._on_change()

    def _learn_types(self, nodes: Iterable[SlurmNode]) -> None:
        found = {it.gres for it in nodes}  # thousands of nodes have few different ones
        self._gpu_types = self._gpu_types.union(*(types_of(gres, name=_GPU) for gres in found))


def _mark(node: SlurmNode | None) -> tuple[object, ...]:
    """What mappings and the reading of pods depend on, without what changes with every job."""
    if node is None:
        return ()
    powered = node.states & (POWERED | AWAY)
    tied = (node.name, node.comment, node.extra, node.instance_id, node.address)
    return *tied, powered, node.gres
