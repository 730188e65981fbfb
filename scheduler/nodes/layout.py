"""How many pods of a gang go on each node: as many as its partition's nodes take, within a limit.

Slurm chooses where that is safe. Otherwise what is left over goes on a last node, as a component of
its own. Where the job must be in one piece the number divides the pods. What a node takes: only
what jobs may have of it, in this partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from annotations import JobRequest, Sharing
from groundwork.pauses import in_slices
from scheduler.core.node_gres import count_of
from scheduler.core.node_requests import CPU, PODS_RESOURCE
from scheduler.core.packing import Dealt, NodeSize, Packed, Part, PodSize, deal, packable
from scheduler.nodes.node_kinds import NodeKinds
from slurmapi import Partition, SlurmNode

_GRES: Final = "gres/"

_Sizes = Mapping[NodeSize, int]
"""How many nodes of each size a partition has."""


class _Sized(NamedTuple):
    """The size of a node in Slurm, and for pods, which may have less of it in Kubernetes."""

    name: str
    in_slurm: NodeSize
    for_pods: NodeSize


def _unknown(_node: str) -> Mapping[str, int]:
    return {}


class Layouts:
    """Asks the records of Slurm's nodes for their sizes. `allocatable` is what pods may request
    together of the Kubernetes Node behind a Slurm node, as in NodeFacts; empty if not known.
    """

    def __init__(
        self, kinds: NodeKinds, *, allocatable: Callable[[str], Mapping[str, int]] = _unknown
    ) -> None:
        self._kinds = kinds
        self._allocatable = allocatable

    async def parts(
        self,
        request: JobRequest,
        pods: int,
        *,
        most: int,
        may_pack: bool = True,
        sharing: Sharing | None = None,
        avoided: Collection[str] = (),
    ) -> tuple[Part | Packed, ...]:
        """How these pods, which all ask for this, go on nodes: `most` or fewer on each. If they do
        not divide evenly, the last part has the remainder. Slurm packs them if it `may_pack` and
        that is safe. `sharing` says who else may use the nodes. The job does not get the `avoided`
        ones, at least for now. Raises SlurmError.
        """
        if min(pods, most) == 1:
            return (Part(pods, 1),)
        pod = PodSize(
            cpus=request.cpus,
            memory_mib=request.memory_mib,
            gpus=1 if request.gres else 0,
            devices=request.gres is not None,
        )
        listed = [
            [self._sized(node, request, record) async for node in in_slices(nodes)]
            for record, nodes in await self._kinds.in_partitions(request.partition)
        ]
        whole = [Counter(it.in_slurm for it in nodes) for nodes in listed]
        safe = may_pack and _leaves_it_to_slurm(request, sharing)
        safe = safe and _packable(pods, pod, whole, most=most)
        if safe and not await self._kinds.has_whole_nodes(request.partition):
            return (Packed(pods),)
        without = frozenset((*avoided, *request.excluded_nodes))
        left = [Counter(it.for_pods for it in nodes if it.name not in without) for nodes in listed]
        all_nodes = [Counter(it.for_pods for it in nodes) for nodes in listed]
        for partitions in (left, all_nodes, whole):
            # Slurm takes all nodes of a component from one of the partitions.
            plans = [_dealt(request, pods, pod, sizes, most=most) for sizes in partitions]
            found = min(filter(None, plans), key=_cost, default=None)
            if found is not None:
                return found
        return (Part(pods, 1),)

    def _sized(self, node: SlurmNode, request: JobRequest, partition: Partition | None) -> _Sized:
        size, there = _node_size(node, request, partition), self._allocatable(node.name)
        if not there:
            return _Sized(node.name, size, size)
        most = there.get(PODS_RESOURCE, 0) * request.cpus
        less = replace(
            size,
            cpus=min(size.cpus, there.get(CPU, 0) // 1000, most),
            memory_mib=min(size.memory_mib, there.get("memory", 0) // 2**20),
        )
        return _Sized(node.name, size, less)


def _leaves_it_to_slurm(request: JobRequest, sharing: Sharing | None) -> bool:
    """Whether the request lets Slurm choose how many pods each node gets. A job that has whole
    nodes has all their CPUs, so nobody can tell how many pods belong there.
    """
    whole = Sharing.NONE in {request.exclusive, sharing}
    chosen = _wants_nodes_near(request) or request.required_nodes
    return not (whole or chosen or request.threads_per_core)


def _packable(pods: int, pod: PodSize, partitions: Collection[_Sizes], *, most: int) -> bool:
    """Whether Slurm may pack the pods, whichever partition it takes, and one has room for them."""
    anywhere: Counter[NodeSize] = Counter()
    for sizes in partitions:
        anywhere.update(sizes)
    return packable(pods, pod, anywhere, pods_per_node=most) and any(
        packable(pods, pod, sizes, pods_per_node=most) for sizes in partitions
    )


def _cost(parts: tuple[Part, ...]) -> tuple[int, int]:
    """Fewer nodes are better, then fewer components."""
    return sum(it.nodes for it in parts), len(parts)


def _dealt(
    request: JobRequest, pods: int, pod: PodSize, sizes: _Sizes, *, most: int
) -> tuple[Part, ...] | None:
    """How the pods go on these nodes; None if they do not."""
    if not _in_one_piece(request):
        found = deal(pods, pod, sizes, pods_per_node=most)
        return found.parts if isinstance(found, Dealt) else None
    for each in range(min(pods, most), 0, -1):
        if pods % each:
            continue
        found = deal(pods, pod, sizes, pods_per_node=each)
        if found == Dealt((Part(pods // each, each),)):
            return (Part(pods // each, each),)
    return None


def _in_one_piece(request: JobRequest) -> bool:
    """Whether the pods must be one component: Slurm gives each component nodes of its own, near
    each other only within the component, and ends all if one loses a node.
    """
    return _wants_nodes_near(request) or request.no_kill or bool(request.required_nodes)


def _wants_nodes_near(request: JobRequest) -> bool:
    """Whether it asks for nodes that are near each other."""
    return request.contiguous or request.segment is not None or request.switches is not None


def _node_size(node: SlurmNode, request: JobRequest, partition: Partition | None) -> NodeSize:
    """What jobs of this partition may have of the node: nothing that is specialized (CoreSpecCount,
    MemSpecLimit), and of each core as many threads as the request counts. Its devices are counted
    in sets, of which each pod wants one.
    """
    cpus = node.job_cpus or node.cpus
    memory = node.job_memory_mib
    if partition is not None and partition.max_cpus_per_node is not None:
        cpus = min(cpus, partition.max_cpus_per_node)
    if partition is not None and partition.max_memory_per_node_mib is not None:
        memory = min(memory, partition.max_memory_per_node_mib)
    threads = min(request.threads_per_core or node.threads_per_core, node.threads_per_core)
    return NodeSize(
        cpus=cpus // node.threads_per_core * threads if request.threads_per_core else cpus,
        memory_mib=memory,
        gpus=_sets(node, request),
        threads_per_core=node.threads_per_core,
        slurmd="EXTERNAL" not in node.states,
    )


def _sets(node: SlurmNode, request: JobRequest) -> int:
    """For how many such pods the node has all the devices; 0 for pods without any."""
    entries = (it.removeprefix(_GRES).rpartition(":") for it in (request.gres or "").split(","))
    wanted = [(name, int(count)) for name, _, count in entries if name and count.isdigit()]
    return min((count_of(node.gres, name) // count for name, count in wanted if count), default=0)
