"""How the alike pods of a gang go on the nodes of a partition: packed by Slurm, or equally many on
each.

`nodes/layout.py` asks this for each gang that may have several pods on a node. Slurm packs them
where that is safe: it takes what is free on each node, so the gang starts sooner. Otherwise the
fewest nodes are taken, then the most even number of pods on each. What is left over goes on a node
of its own, as a further component of the job. docs/gangs-slurm.md has a table of examples.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

# A component is a job of its own, with a record and a state to be read. Slurm allows 128.
MOST_PARTS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSize:
    """What each pod of the gang takes of a node. `gpus` are those of the type that it wants;
    `devices` says whether it wants any gres.
    """

    cpus: int
    memory_mib: int
    gpus: int = 0
    devices: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSize:
    """What a node has. `slurmd` says whether it has a slurmd."""

    cpus: int
    memory_mib: int
    gpus: int = 0
    threads_per_core: int = 1
    slurmd: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """This many nodes with this many pods on each: one component of the job."""

    nodes: int
    pods_per_node: int

    @property
    def pods(self) -> int:
        """How many pods it has."""
        return self.nodes * self.pods_per_node


@dataclass(frozen=True, slots=True)
class Packed:
    """This many pods for which Slurm finds the nodes: one component of the job."""

    pods: int


@dataclass(frozen=True, slots=True)
class Dealt:
    """The pods of each component in turn, from rank 0 on. One component is a plain job."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The partition is too small for the gang, even when it is empty: it has room for so many. Or
    its nodes are of so many sizes that the job would have too many components.
    """

    pods: int


Dealing = Dealt | NoRoom


def packable(pods: int, pod: PodSize, nodes: Mapping[NodeSize, int], *, pods_per_node: int) -> bool:
    """Whether Slurm may choose how many of these pods each of `nodes` gets, and has a choice.

    Slurm counts CPUs, and allocates whole cores: a pod must have whole cores, or a node would seem
    to have room for more pods than it got. Slurm does not know the limit `pods_per_node`, so no
    node may have room for more pods than that. On EXTERNAL nodes slurmctld does not take back the
    GPUs of a job if it has dealt them out by tasks (measured on 26.05.5).
    """
    rooms = [(room(pod, size), count) for size, count in nodes.items()]
    return (
        sum(fits * count for fits, count in rooms) >= pods
        and 1 < max((fits for fits, _ in rooms), default=0) <= pods_per_node
        and all(not pod.cpus % it.threads_per_core for it in nodes)
        and (not pod.devices or all(it.slurmd for it in nodes))
    )


def deal(pods: int, pod: PodSize, nodes: Mapping[NodeSize, int], *, pods_per_node: int) -> Dealing:
    """How `pods` of this size go on `nodes`, which says how many of each size a partition has.
    `pods_per_node` is the most that a node may have.
    """
    rooms = _Rooms(pod, nodes, most=min(pods, pods_per_node))
    if rooms.pods < pods:
        return NoRoom(rooms.pods)
    parts = _even(pods, rooms) or _uneven(pods, rooms)
    return NoRoom(rooms.pods) if parts is None else Dealt(parts)


def room(pod: PodSize, node: NodeSize) -> int:
    """How many such pods fit on an empty node."""
    fits = min(node.cpus // pod.cpus, node.memory_mib // pod.memory_mib)
    return min(fits, node.gpus // pod.gpus) if pod.gpus else fits


class _Rooms:
    """How many nodes have room for this many pods; none takes more than `most`."""

    def __init__(self, pod: PodSize, nodes: Mapping[NodeSize, int], *, most: int) -> None:
        counted: dict[int, int] = {}
        for size, count in nodes.items():
            fits = min(room(pod, size), most)
            if fits > 0 < count:
                counted[fits] = counted.get(fits, 0) + count
        self.sizes: Sequence[int] = sorted(counted)
        self.pods = sum(fits * count for fits, count in counted.items())
        smaller = accumulate((counted[it] for it in self.sizes), initial=0)
        total = sum(counted.values())
        self._at_least = [total - it for it in smaller]

    def nodes_for(self, pods: int) -> int:
        """How many nodes have room for at least this many pods."""
        return self._at_least[bisect_left(self.sizes, pods)]


def _even(pods: int, rooms: _Rooms) -> tuple[Part, ...] | None:
    """The same number on each node, and what is left over on one more; None if there is no way."""
    found = min(_ways(pods, rooms), default=None)
    if found is None:
        return None
    _, _, each = found
    full, rest = divmod(pods, each)
    return (Part(full, each), *((Part(1, rest),) if rest else ()))


def _ways(pods: int, rooms: _Rooms) -> Iterator[tuple[int, int, int]]:
    """Each way that fits, as number of nodes, pods on the last, pods on each."""
    for each in range(1, rooms.sizes[-1] + 1):
        full, rest = divmod(pods, each)
        total = full + (rest > 0)
        if rooms.nodes_for(each) >= full and (not rest or rooms.nodes_for(rest) >= total):
            yield total, rest > 0, each


def _uneven(pods: int, rooms: _Rooms) -> tuple[Part, ...] | None:
    """The largest nodes first, each as full as it can be; None if that makes too many parts."""
    parts: list[Part] = []
    used = 0
    for size in reversed(rooms.sizes):
        free = rooms.nodes_for(size) - used
        full = min(free, pods // size)
        parts += [Part(full, size)] if full else []
        pods, used = pods - full * size, used + full
        if full < free:
            parts += [Part(1, pods)] if pods else []
            break
    return tuple(parts) if len(parts) <= MOST_PARTS else None
