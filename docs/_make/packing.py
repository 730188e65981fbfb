"""The table of docs/gangs-slurm.md: how some gangs go on nodes, by `scheduler.core.packing`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from scheduler.core.packing import Dealing, Dealt, NodeSize, NoRoom, PodSize, deal, packable

_EIGHT: Final = NodeSize(cpus=64, memory_mib=512_000, gpus=8)
_FOUR: Final = NodeSize(cpus=64, memory_mib=512_000, gpus=4)
_SLURMD: Final = replace(_EIGHT, slurmd=True)
_THREADS: Final = replace(_SLURMD, threads_per_core=8)
_NAMES: Final = {
    _EIGHT: "with 8 GPUs",
    _FOUR: "with 4 GPUs",
    _SLURMD: "with 8 GPUs and a slurmd",
    _THREADS: "with 8 GPUs, a slurmd and 8 threads per core",
}
_Partition = dict[NodeSize, int]
# Pods, the GPUs of each, the partition, the most that a node may have.
_ROWS: Final[tuple[tuple[int, int, _Partition, int], ...]] = (
    (8, 8, {_EIGHT: 100}, 1),
    (16, 2, {_EIGHT: 100}, 1),
    (16, 2, {_EIGHT: 100}, 16),
    (10, 1, {_EIGHT: 100}, 16),
    (17, 2, {_EIGHT: 100}, 16),
    (17, 2, {_EIGHT: 100}, 3),
    (5, 3, {_EIGHT: 100}, 16),
    (12, 2, {_EIGHT: 2, _FOUR: 6}, 16),
    (12, 2, {_EIGHT: 2, _FOUR: 2}, 16),
    (16, 2, {_SLURMD: 100}, 3),
    (16, 2, {_SLURMD: 100}, 16),
    (16, 2, {_EIGHT: 50, _SLURMD: 50}, 16),
    (16, 2, {_THREADS: 100}, 16),
    (200, 0, {_EIGHT: 100}, 15),
    (200, 0, {_EIGHT: 100}, 16),
    (40, 4, {_EIGHT: 16}, 16),
)


def table() -> str:
    """The examples as a Markdown table; each pod takes 4 CPUs and 1000 MiB beside its GPUs."""
    head = ("Pods", "GPUs of each", "Nodes of the partition", "`pods-per-node`", "Plan")
    lines = [head, ("---",) * len(head), *_rows()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _rows() -> Iterator[tuple[str, ...]]:
    for pods, gpus, nodes, most in _ROWS:
        pod = PodSize(cpus=4, memory_mib=1000, gpus=gpus, devices=gpus > 0)
        there = ", ".join(f"{count} {_NAMES[size]}" for size, count in nodes.items())
        if packable(pods, pod, nodes, pods_per_node=most):
            words = "packed by Slurm"
        else:
            words = _words(deal(pods, pod, nodes, pods_per_node=most))
        yield str(pods), str(gpus), there, str(most), words


def _words(found: Dealing) -> str:
    match found:
        case NoRoom(room):
            return f"too many: room for {room}"
        case Dealt(parts):
            return " + ".join(_part(it.nodes, it.pods_per_node) for it in parts)


def _part(nodes: int, pods: int) -> str:
    return f"{nodes} {'node' if nodes == 1 else 'nodes'} of {pods}"
