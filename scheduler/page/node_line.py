"""One Slurm node as a line of the page: who holds its GPUs, CPUs and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from scheduler.core.node_gres import count_of
from scheduler.view.safe_text import shown
from slurmapi import SlurmNode

_GPU: Final = "gpu"
_MIB: Final = 2**20
_MOST_STATES: Final = 8
_MOST_PARTITIONS: Final = 32
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """CPUs, memory in MiB, and GPUs."""

    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0

    def less(self, other: NodeAmounts) -> NodeAmounts:
        """What is left without the other, never below 0."""
        return NodeAmounts(
            max(0, self.cpus - other.cpus),
            max(0, self.memory_mib - other.memory_mib),
            max(0, self.gpus - other.gpus),
        )


def total(node: SlurmNode) -> NodeAmounts:
    """What the node has."""
    return NodeAmounts(node.cpus, node.memory_mib, count_of(node.gres, _GPU))


def amounts_allocated(node: SlurmNode) -> NodeAmounts:
    """What Slurm has given to jobs when it was asked last."""
    return NodeAmounts(
        node.allocated_cpus, node.allocated_memory_mib, count_of(node.gres_used, _GPU)
    )


def node_line(node: SlurmNode, target: str, *, pods: NodeAmounts, jobs: NodeAmounts) -> bytes:
    """The line of a node whose Node is `target`: held by our pods, held by other jobs,
    free, and in all.
    """
    whole = total(node)
    for_jobs = NodeAmounts(node.job_cpus, node.job_memory_mib, whole.gpus)
    free = for_jobs.less(pods).less(jobs)
    return _encode(
        {
            "id": node.name,
            "node": target,
            "states": sorted(map(shown, node.states))[:_MOST_STATES],
            "partitions": [shown(it) for it in node.partitions[:_MOST_PARTITIONS]],
            "cpus": [pods.cpus, jobs.cpus, free.cpus, whole.cpus],
            "memory": [pods.memory_mib, jobs.memory_mib, free.memory_mib, whole.memory_mib],
            "gpus": [pods.gpus, jobs.gpus, free.gpus, whole.gpus],
        }
    )


def mib(amount: int) -> int:
    """Bytes as MiB, rounded up."""
    return -(-amount // _MIB)
