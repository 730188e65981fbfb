"""Adds the nodes of a partition up: how many are of use, which kinds there are, what is free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.gang_sources import MOST_GANG_PODS
from scheduler.page.node_room import MOST_TYPES, NodeRoom, RoomSize
from scheduler.view.partition_row import MOST_KINDS, GpuCount, NodeKind, SizeTold
from slurmapi import Partition

MOST_KINDS_COUNTED: Final = 64
_MOST_TAINTS: Final = 16
_MOST_SAID: Final = 3


@dataclass(slots=True)
class _Kind:
    """Nodes that are alike. `room` is what a pod can have on each of the idle ones."""

    size: RoomSize
    nodes: int = 0
    usable: int = 0
    idle: int = 0
    room: RoomSize | None = None


@dataclass(slots=True)
class Tally:
    """The nodes of one partition. `with_gpus` is the room for the pod with the most GPUs,
    `with_cpus` that for the pod with the most CPUs.
    """

    nodes: int = 0
    usable: int = 0
    with_gpus: RoomSize | None = None
    with_cpus: RoomSize | None = None
    shared_with_jobs: int = 0
    closed: Counter[str] = field(default_factory=Counter)
    later: Counter[str] = field(default_factory=Counter)
    taints: Counter[str] = field(default_factory=Counter)
    gpus: dict[str, list[int]] = field(default_factory=dict)
    kinds: dict[RoomSize, _Kind] = field(default_factory=dict)
    more_kinds: bool = False

    def add(self, room: NodeRoom, *, whole_nodes: bool) -> None:
        """Count a node. With `whole_nodes`, a pod starts only on one without a job."""
        self.nodes += 1
        kind = self._kind(room)
        if room.closed:
            self.closed[room.closed] += 1
            self._count_gpus(room, None)
            return
        self.usable += 1
        if kind is not None:
            kind.usable += 1
        if room.later:
            self.later[room.later] += 1
        if room.taint and (room.taint in self.taints or len(self.taints) < _MOST_TAINTS):
            self.taints[room.taint] += 1
        self.shared_with_jobs += room.shared_with_jobs
        free = room.free if room.idle or not whole_nodes else None
        self._count_gpus(room, free)
        if free is not None:
            self.with_gpus = max(self.with_gpus or free, free, key=_by_gpus)
            self.with_cpus = max(self.with_cpus or free, free, key=_by_cpus)
        if kind is not None and room.idle and room.free is not None:
            kind.idle += 1
            kind.room = room.free if kind.room is None else _both(kind.room, room.free)

    def _kind(self, room: NodeRoom) -> _Kind | None:
        known = self.kinds.get(room.kind)
        if known is None:
            if len(self.kinds) >= MOST_KINDS_COUNTED:
                self.more_kinds = True
                return None
            known = self.kinds[room.kind] = _Kind(room.size)
        known.nodes += 1
        known.size = max(known.size, room.size, key=_by_gpus)
        return known

    def _count_gpus(self, room: NodeRoom, free: RoomSize | None) -> None:
        there = dict(free.gpus) if free is not None else {}
        for of_type, count in room.kind.gpus:
            if of_type in self.gpus or len(self.gpus) < MOST_TYPES:
                counts = self.gpus.setdefault(of_type, [0, 0])
                counts[0] += there.get(of_type, 0)
                counts[1] += count

    def now(self, partition: Partition) -> tuple[SizeTold, ...]:
        """The largest pods that there is room for, within the partition's limits for one node."""
        if self.with_gpus is None or self.with_cpus is None:
            return ()
        first, second = _within(self.with_gpus, partition), _within(self.with_cpus, partition)
        return tuple(map(_size_told, (first, second) if second.cpus > first.cpus else (first,)))

    def shown_kinds(self, partition: Partition) -> tuple[NodeKind, ...]:
        """The kinds of nodes, the largest first. Their idle nodes are those that one gang can have:
        no more than the partition's limit, and than a gang has pods.
        """
        most = min(MOST_GANG_PODS, partition.max_nodes or MOST_GANG_PODS)
        kinds = sorted(self.kinds.values(), key=lambda it: _by_gpus(it.size), reverse=True)
        return tuple(
            NodeKind(
                shape=_size_told(it.size),
                nodes=it.nodes,
                usable=it.usable,
                idle=it.idle,
                gang=min(it.idle, most),
                room=None if it.room is None else _size_told(_within(it.room, partition)),
            )
            for it in kinds[:MOST_KINDS]
        )

    def shown_gpus(self) -> dict[str, GpuCount]:
        """GPUs by type."""
        return {name: GpuCount(free, total) for name, (free, total) in sorted(self.gpus.items())}

    def notes(self) -> Iterator[str]:
        """What else people should know of these nodes."""
        for said in (self.closed, self.later):
            for text, count in said.most_common(_MOST_SAID):
                yield f"{count} of {self.nodes} nodes {_are(count)} {text}"
        for taint, count in self.taints.most_common(_MOST_SAID):
            yield f"{count} of {self.nodes} nodes only for pods that tolerate {taint}"
        if self.more_kinds or len(self.kinds) > MOST_KINDS:
            yield f"there are more kinds of nodes than the {MOST_KINDS} that are shown"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _by_gpus(size: RoomSize) -> tuple[int, int, int]:
    return size.gpu_count, size.cpus, size.memory_mib


def _by_cpus(size: RoomSize) -> tuple[int, int, int]:
    return size.cpus, size.memory_mib, size.gpu_count


def _both(one: RoomSize, other: RoomSize) -> RoomSize:
    """What is there on each of two nodes."""
    theirs = dict(other.gpus)
    gpus = tuple((name, min(count, theirs.get(name, 0))) for name, count in one.gpus)
    return RoomSize(
        min(one.cpus, other.cpus),
        min(one.memory_mib, other.memory_mib),
        tuple(it for it in gpus if it[1]),
    )


def _within(size: RoomSize, partition: Partition) -> RoomSize:
    cpus, memory = partition.max_cpus_per_node, partition.max_memory_per_node_mib
    return size._replace(
        cpus=min(size.cpus, cpus or size.cpus),
        memory_mib=min(size.memory_mib, memory or size.memory_mib),
    )


def _size_told(size: RoomSize) -> SizeTold:
    return SizeTold(size.cpus, size.memory_mib, dict(size.gpus))
