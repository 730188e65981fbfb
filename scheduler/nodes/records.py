"""What Slurm says of its nodes, remembered for as long as a decision may rest on it.

All nodes are listed now and then, whatever goes on; a single one is asked for when an allocation on
it is to be used and what is known of it is too old. Neither grows with the pods that wait (I10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

import structlog

from scheduler.core.gres import types_of
from slurmapi import SlurmClient, SlurmError, SlurmNode

log = structlog.get_logger(__name__)

# A binding rests on a record no older than this: an operator may have just moved a comment.
FRESH_SECONDS: Final = 30.0
_LIST_SECONDS: Final = 300.0
# Before the first list nothing is submitted: it is asked for again as often as a census is.
_FIRST_LIST_SECONDS: Final = 2.0
_GPU: Final = "gpu"
# States of nodes that are switched off, or on their way.
POWERED: Final = frozenset(
    {"POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP", "CLOUD"}
)
# States of nodes on which nothing can be started as they are.
AWAY: Final = frozenset({"DOWN", "FUTURE", "POWERED_DOWN"})
_AGAIN_SECONDS: Final = 15.0
# Records of nodes that no list shows any more are of no use for longer.
_KEPT_SECONDS: Final = 4 * _LIST_SECONDS


class SlurmNodes:
    """Node records by name. `on_change` is called after each list that told something new, and
    before the first one when why there is none has changed.
    """

    def __init__(
        self, client: SlurmClient, *, clock: Callable[[], float], on_change: Callable[[], None]
    ) -> None:
        self._client = client
        self._clock = clock
        self._on_change = on_change
        self._records: dict[str, tuple[float, SlurmNode | None]] = {}
        self._listed: Mapping[str, SlurmNode] | None = None
        self._marks: frozenset[tuple[object, ...]] = frozenset()
        self._listing = asyncio.Lock()
        self._gpu_types: frozenset[str] = frozenset()
        self.first_list = asyncio.Event()
        self.trouble = ""
        """Why the last list failed; empty when it did not."""

    @property
    def listed(self) -> Collection[SlurmNode] | None:
        """All nodes of the last list, None before the first."""
        return None if self._listed is None else self._listed.values()

    @property
    def gpu_types(self) -> frozenset[str] | None:
        """The types of GPUs that Slurm has, None before the first list. One that was there stays: a
        pod that waits shall not be read as another for a node that goes and comes back.
        """
        return None if self._listed is None else self._gpu_types

    def knows(self, name: str, *, fresh: bool) -> bool:
        """Whether `record` tells how things are; with `fresh`, how they are now."""
        known = self._records.get(name)
        if known is None:
            return False
        return not fresh or self._clock() - known[0] <= FRESH_SECONDS

    def record(self, name: str) -> SlurmNode | None:
        """The node as last seen; None where Slurm does not know it, or was not asked."""
        known = self._records.get(name)
        return None if known is None else known[1]

    async def learn(self, names: Iterable[str]) -> None:
        """Ask about these nodes, or about all where nothing is known yet. Raises SlurmError."""
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

    async def run(self) -> None:
        """List now and then, for ever; end it by cancelling."""
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
            self._on_change()  # pods that wait for the first list tell why

    async def _list(self, *, again: bool = False) -> None:
        """Those who come while a list is under way take its answer."""
        async with self._listing:
            if self._listed is not None and not again:
                return
            self._take(await self._client.nodes())

    def _take(self, nodes: Sequence[SlurmNode]) -> None:
        now = self._clock()
        kept = {name: it for name, it in self._records.items() if now - it[0] < _KEPT_SECONDS}
        self._records = kept | {node.name: (now, node) for node in nodes}
        first, self._listed = self._listed is None, {node.name: node for node in nodes}
        self._learn_types(nodes)
        self.first_list.set()
        former, self._marks = self._marks, frozenset(map(_mark, nodes))
        if first or former != self._marks:
            self._on_change()

    def _learn_types(self, nodes: Iterable[SlurmNode]) -> None:
        self._gpu_types = self._gpu_types.union(*(types_of(it.gres, name=_GPU) for it in nodes))


def _mark(node: SlurmNode | None) -> tuple[object, ...]:
    """What a mapping rests on, or the reading of pods, and not what changes with every job."""
    if node is None:
        return ()
    powered = node.states & (POWERED | AWAY)
    tied = (node.name, node.comment, node.extra, node.instance_id, node.address)
    return *tied, powered, node.gres
