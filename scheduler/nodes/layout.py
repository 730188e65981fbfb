"""How many pods of a gang go on each node: as many as its partition's nodes take, within a limit.

Slurm chooses where that is safe. Otherwise what is left over goes on a last node, as a component of
its own. Where the job must be in one piece the number divides the pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from annotations import JobRequest, Sharing
from scheduler.core.node_gres import count_of
from scheduler.core.packing import Dealt, NodeSize, Packed, Part, PodSize, deal, packable
from scheduler.nodes.node_kinds import NodeKinds
from slurmapi import SlurmNode

_GRES: Final = "gres/"


class Layouts:
    """Asks the records of Slurm's nodes for their sizes."""

    def __init__(self, kinds: NodeKinds) -> None:
        self._kinds = kinds

    async def parts(
        self,
        request: JobRequest,
        pods: int,
        *,
        most: int,
        may_pack: bool = True,
        sharing: Sharing | None = None,
    ) -> tuple[Part | Packed, ...]:
        """How these pods, which all ask for this, go on nodes: `most` or fewer on each. If they do
        not divide evenly, the last part has the remainder. Slurm packs them if it `may_pack` and
        that is safe. `sharing` says who else may use the nodes. Raises SlurmError.
        """
        if min(pods, most) == 1:
            return (Part(pods, 1),)
        listed = await self._kinds.nodes_of(request.partition)
        device, gpus = _first_gres(request)
        pod = PodSize(
            cpus=request.cpus,
            memory_mib=request.memory_mib,
            gpus=gpus,
            devices=request.gres is not None,
        )
        sizes = Counter(_node_size(node, device) for node in listed)
        safe = may_pack and _leaves_it_to_slurm(request, sharing)
        safe = safe and packable(pods, pod, sizes, pods_per_node=most)
        if safe and not await self._kinds.has_whole_nodes(request.partition):
            return (Packed(pods),)
        return _dealt(request, pods, pod, sizes, most=most)


def _leaves_it_to_slurm(request: JobRequest, sharing: Sharing | None) -> bool:
    """Whether the request lets Slurm choose how many pods each node gets. A job that has whole
    nodes has all their CPUs, so nobody can tell how many pods belong there.
    """
    whole = Sharing.NONE in {request.exclusive, sharing}
    chosen = _wants_nodes_near(request) or request.required_nodes
    return not (whole or chosen or request.threads_per_core)


def _dealt(
    request: JobRequest, pods: int, pod: PodSize, sizes: Mapping[NodeSize, int], *, most: int
) -> tuple[Part, ...]:
    if not _in_one_piece(request):
        found = deal(pods, pod, sizes, pods_per_node=most)
        return found.parts if isinstance(found, Dealt) else (Part(pods, 1),)
    for each in range(min(pods, most), 1, -1):
        if pods % each:
            continue
        found = deal(pods, pod, sizes, pods_per_node=each)
        if found == Dealt((Part(pods // each, each),)):
            return (Part(pods // each, each),)
    return (Part(pods, 1),)


def _in_one_piece(request: JobRequest) -> bool:
    """Whether the pods must be one component: Slurm gives each component nodes of its own, near
    each other only within the component, and ends all if one loses a node.
    """
    return _wants_nodes_near(request) or request.no_kill or bool(request.required_nodes)


def _wants_nodes_near(request: JobRequest) -> bool:
    """Whether it asks for nodes that are near each other."""
    return request.contiguous or request.segment is not None or request.switches is not None


def _first_gres(request: JobRequest) -> tuple[str, int]:
    """The first gres of the request, as a node's record names it, and how many a pod asks for."""
    first = (request.gres or "").split(",")[0].removeprefix(_GRES)
    name, _, count = first.rpartition(":")
    return (name, int(count)) if name and count.isdigit() else ("", 0)


def _node_size(node: SlurmNode, device: str) -> NodeSize:
    return NodeSize(
        cpus=node.cpus,
        memory_mib=node.memory_mib,
        gpus=count_of(node.gres, device) if device else 0,
        threads_per_core=node.threads_per_core,
        slurmd="EXTERNAL" not in node.states,
    )
