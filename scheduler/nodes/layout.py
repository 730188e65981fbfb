"""How many pods of a gang go on each node: as many as its partition's nodes take, within a limit.

What is left over goes on a last node, as a component of its own. Where the job must be in one piece
the number divides the pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from annotations import JobRequest
from scheduler.core.gres import count_of
from scheduler.core.packing import Dealt, NodeSize, Part, PodSize, plan
from scheduler.nodes.node_kinds import NodeKinds
from slurmapi import SlurmNode

_GRES: Final = "gres/"


class Layouts:
    """Asks the records of Slurm's nodes for their sizes."""

    def __init__(self, kinds: NodeKinds) -> None:
        self._kinds = kinds

    async def parts(self, request: JobRequest, pods: int, *, most: int) -> tuple[Part, ...]:
        """How these pods, which all ask for this, go on nodes: `most` or fewer on each. If they do
        not divide evenly, the last part has the remainder. Raises SlurmError.
        """
        if min(pods, most) == 1:
            return (Part(pods, 1),)
        nodes = await self._kinds.nodes_of(request.partition)
        return _parts(request, pods, most=most, nodes=nodes)


def _parts(
    request: JobRequest, pods: int, *, most: int, nodes: Iterable[SlurmNode]
) -> tuple[Part, ...]:
    device, gpus = _devices(request)
    pod = PodSize(cpus=request.cpus, memory_mib=request.memory_mib, gpus=gpus)
    sizes = Counter(_size(node, device) for node in nodes)
    if not _in_one_piece(request):
        found = plan(pods, pod, sizes, pods_per_node=most)
        return found.parts if isinstance(found, Dealt) else (Part(pods, 1),)
    for each in range(min(pods, most), 1, -1):
        if pods % each:
            continue
        found = plan(pods, pod, sizes, pods_per_node=each)
        if found == Dealt((Part(pods // each, each),)):
            return (Part(pods // each, each),)
    return (Part(pods, 1),)


def _in_one_piece(request: JobRequest) -> bool:
    """Whether the pods must be one component: Slurm gives each component nodes of its own, near
    each other only within the component, and ends all if one loses a node.
    """
    near = request.contiguous or request.segment is not None or request.switches is not None
    return near or request.no_kill or bool(request.required_nodes)


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
    )
