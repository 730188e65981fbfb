"""Which Slurm nodes have a slurmd: nodes in state EXTERNAL have none, all others have one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from groundwork.pauses import with_pauses
from scheduler.nodes.partitions import SlurmPartitions
from scheduler.nodes.records import SlurmNodes
from slurmapi import Partition, SlurmClient, SlurmNode

# Kinds change with slurm.conf only, and with the Nodes behind Slurm's. Counting 10 000 nodes takes
# a tenth of a second of CPU time, which is too long for each submit.
_COUNT_SECONDS: Final = 60.0
# Nodes that join one after another should not cost a count each.
_COUNT_AGAIN_SECONDS: Final = 5.0
_COUNTED_AT_ONCE: Final = 100
_PARTITIONS_KEPT_SECONDS: Final = 300.0
_ALL: Final = ""  # no partition has this name


@dataclass(frozen=True, slots=True)
class Kinds:
    """How many nodes with a slurmd may serve a pod, and how many without one."""

    with_slurmd: int = 0
    external: int = 0

    def __add__(self, other: Kinds) -> Kinds:
        return Kinds(self.with_slurmd + other.with_slurmd, self.external + other.external)


_SLURMD: Final = Kinds(with_slurmd=1)
_EXTERNAL: Final = Kinds(external=1)
_NEITHER: Final = Kinds()


class NodeKinds:
    """Counts nodes by kind. `may_serve` is false for a node with no Kubernetes Node behind it: no
    pod runs there, so its slurmd does not matter.
    """

    def __init__(
        self,
        client: SlurmClient,
        nodes: SlurmNodes,
        *,
        may_serve: Callable[[str], bool],
        clock: Callable[[], float],
    ) -> None:
        self._nodes = nodes
        self._may_serve = may_serve
        self._counted: Mapping[str, Kinds] = {}
        self._partitions = SlurmPartitions(client, clock=clock)
        self._asking = asyncio.Lock()
        self._counting = asyncio.Lock()
        self._outdated = asyncio.Event()

    async def run(self) -> None:
        """Count the nodes once Slurm has listed them, then every minute, and within seconds when
        the mapping has changed; for ever, so cancel it to stop. Start it when the Nodes behind
        Slurm's are known: a node without one counts as none.
        """
        await self._nodes.first_list.wait()
        while True:
            self._outdated.clear()
            self._counted = await self._count()
            await asyncio.sleep(_COUNT_AGAIN_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(_COUNT_SECONDS - _COUNT_AGAIN_SECONDS):
                    await self._outdated.wait()

    def mapping_changed(self) -> None:
        """Note that there may be another Node behind a Slurm node, or another kind of node."""
        self._outdated.set()

    async def of(self, partition: str | None = None, nodes: Collection[str] = ()) -> Kinds:
        """The nodes that a job may get: `nodes` if it names any, otherwise those of its partitions
        (joined by commas), or of the default partition if it names none.

        If a partition is unknown or has no nodes yet, all nodes are counted. Raises SlurmError.
        """
        await self._nodes.learn(())
        if nodes:
            return sum((self._kind(self._nodes.record(name)) for name in nodes), _NEITHER)
        counted = await self._last_count()
        whole = counted.get(_ALL, _NEITHER)
        if not (whole.with_slurmd and whole.external):
            return whole
        names = partition or await self._default_name()
        found = sum((counted.get(name, _NEITHER) for name in names.split(",")), _NEITHER)
        return found if found != _NEITHER else whole

    async def in_partitions(
        self, partition: str | None
    ) -> list[tuple[Partition | None, list[SlurmNode]]]:
        """The nodes of each of these partitions (joined by commas), or of the default one, with the
        partition's record; None if Slurm lists no such partition. Raises SlurmError.
        """
        await self._nodes.learn(())
        records = {it.name: it for it in await self._listed_partitions()}
        names = (partition or await self._default_name()).split(",")
        found: dict[str, list[SlurmNode]] = {name: [] for name in names}
        for node in self._nodes.listed or ():
            for name in found.keys() & set(node.partitions):
                found[name].append(node)
        return [(records.get(name), nodes) for name, nodes in found.items()]

    async def knows(self, partition: str) -> bool:
        """Whether Slurm has nodes in each of these partitions. Raises SlurmError."""
        await self._nodes.learn(())
        counted = await self._last_count()
        return counted.keys() >= set(partition.split(","))

    def with_slurmd(self) -> int:
        """How many nodes have a slurmd and may serve pods, by the last count."""
        return self._counted.get(_ALL, _NEITHER).with_slurmd

    async def _last_count(self) -> Mapping[str, Kinds]:
        if not self._counted:
            async with self._counting:
                # Of many submits that come at once at the start, the first counts.
                self._counted = self._counted or await self._count()
        return self._counted

    async def _count(self) -> dict[str, Kinds]:
        """The nodes of each partition, and all of them, counted while other tasks run."""
        counted: defaultdict[str, Kinds] = defaultdict(Kinds)
        async for node in with_pauses(tuple(self._nodes.listed or ()), every=_COUNTED_AT_ONCE):
            kind = self._kind(node)
            for name in (_ALL, *node.partitions):
                counted[name] += kind
        return dict(counted)

    def _kind(self, node: SlurmNode | None) -> Kinds:
        """The kind of a node. An unknown node counts as one with a slurmd, which needs more
        care.
        """
        if node is None:
            return _SLURMD
        if "EXTERNAL" in node.states:
            return _EXTERNAL
        return _SLURMD if self._may_serve(node.name) else _NEITHER

    async def has_whole_nodes(self, partition: str | None) -> bool:
        """Whether jobs of one of these partitions (joined by commas), or of the default one, get
        whole nodes. Raises SlurmError.
        """
        names = frozenset((partition or await self._default_name()).split(","))
        return any(it.whole_nodes and it.name in names for it in await self._listed_partitions())

    async def _default_name(self) -> str:
        return ",".join(it.name for it in await self._listed_partitions() if it.is_default)

    async def _listed_partitions(self) -> Sequence[Partition]:
        async with self._asking:
            await self._partitions.renew(older_than=_PARTITIONS_KEPT_SECONDS)
        return self._partitions.listed or ()
