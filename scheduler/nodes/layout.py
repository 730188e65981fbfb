"""How many pods of a gang go on each node: as many as its partition's nodes take, within a limit.

The number divides the pods of the gang, so that no node holds more than its pods need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from annotations import JobRequest, Sharing
from scheduler.core.gres import count_of
from scheduler.core.packing import Dealt, NodeSize, Part, PodSize, plan
from scheduler.nodes.node_kinds import NodeKinds
from slurmapi import SlurmNode

_GRES: Final = "gres/"


class Layouts:
    """Asks the records of Slurm's nodes for their sizes."""

    def __init__(self, kinds: NodeKinds) -> None:
        self._kinds = kinds

    async def per_node(self, request: JobRequest, pods: int, *, most: int) -> int:
        """How many of these pods, which all ask for this, go on each node: `most` or fewer, and at
        least 1. Raises SlurmError.
        """
        if min(pods, most) == 1:
            return 1
        nodes = await self._kinds.nodes_of(request.partition)
        return _per_node(request, pods, most=most, nodes=nodes)


def _per_node(request: JobRequest, pods: int, *, most: int, nodes: Iterable[SlurmNode]) -> int:
    device, gpus = _devices(request)
    pod = PodSize(cpus=request.cpus, memory_mib=request.memory_mib, gpus=gpus)
    sizes = Counter(_size(node, device) for node in nodes)
    whole = request.exclusive is Sharing.NONE
    for each in range(min(pods, most), 1, -1):
        if pods % each:
            continue
        found = plan(pods, pod, sizes, pods_per_node=each, whole_nodes=whole)
        if found == Dealt((Part(pods // each, each),)):
            return each
    return 1


def _devices(request: JobRequest) -> tuple[str, int]:
    """The first gres of the request, as a node's record names it, and how many a pod asks for."""
    first = (request.gres or "").split(",")[0].removeprefix(_GRES)
    name, _, count = first.rpartition(":")
    return (name, int(count)) if name and count.isdigit() else ("", 0)


def _size(node: SlurmNode, device: str) -> NodeSize:
    return NodeSize(
        cpus=node.cpus,
        memory_mib=node.memory_mib,
        gpus=count_of(node.gres, device) if device else 0,
        slurmd="EXTERNAL" not in node.states,
    )
