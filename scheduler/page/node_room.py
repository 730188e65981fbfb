"""What one Slurm node has for pods, in total and free now. Slurm's jobs count, and so do the pods
that Kubernetes has on the Node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.core.node_gres import counts_of
from scheduler.core.node_requests import CPU, PODS_RESOURCE
from scheduler.core.node_suitability import NodeFacts
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.neighbourhood import Load
from slurmapi import SlurmNode

MOST_TYPES: Final = 16
"""How many types of GPUs of one node are shown."""
_GPU: Final = "gpu"
_MILLI: Final = 1000
_MIB: Final = 2**20
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
# Each stands in other fields of the Node as well.
_KNOWN_TAINTS: Final = "node.kubernetes.io/"
# Flags and states of a node that starts no job, in the words of slurmrestd, and what is said of it.
# RESERVED and MAINTENANCE: measured on 26.05.5 during a reservation without and with MAINT.
_CLOSED: Final[Mapping[str, str]] = {
    "DOWN": "down in Slurm",
    "DRAIN": "drained in Slurm",
    "FAIL": "failing in Slurm",
    "FUTURE": "not there yet in Slurm",
    "MAINTENANCE": "in maintenance in Slurm",
    "RESERVED": "in a reservation of Slurm",
    "NOT_RESPONDING": "not responding to Slurm",
    "INVALID_REG": "registered wrongly in Slurm",
    "ERROR": "in state ERROR in Slurm",
    "UNKNOWN": "in state UNKNOWN in Slurm",
    "BLOCKED": "blocked in Slurm",
    "REBOOT_ISSUED": "being rebooted by Slurm",
    "POWER_DRAIN": "drained in Slurm",
}
# Such a node starts jobs, though not at once.
_LATER: Final[Mapping[str, str]] = {
    "POWERED_DOWN": "powered down",
    "POWERING_DOWN": "powered down",
    "POWER_DOWN": "powered down",
    "POWERING_UP": "powering up",
    "POWER_UP": "powering up",
    "PLANNED": "planned by Slurm for a job that waits",
}


class RoomSize(NamedTuple):
    """CPUs, memory and GPUs by their type, sorted; "" is the type of those without one."""

    cpus: int
    memory_mib: int
    gpus: tuple[tuple[str, int], ...] = ()

    @property
    def gpu_count(self) -> int:
        """GPUs of all types."""
        return sum(count for _, count in self.gpus)


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A node for pods. `kind` is what Slurm has of it for jobs, and equal for nodes that are alike.
    `size` is what the largest pod could have, `free` what one could have now; None if none could
    start. `closed` says why no pod starts there until somebody changes that,
    `later` why none starts now; "" if neither. `idle` says that it has no job, `taint` what pods
    must tolerate. `shared_with_jobs` says that native jobs may come to its GPUs.
    """

    kind: RoomSize
    size: RoomSize
    free: RoomSize | None
    closed: str = ""
    later: str = ""
    idle: bool = False
    taint: str = ""
    shared_with_jobs: bool = False


@dataclass(frozen=True, slots=True)
class KubeSide:
    """What Kubernetes says of the Node behind a Slurm node. `total` and `left` are what pods can
    have of it, None if that is not known.
    """

    closed: str = ""
    taint: str = ""
    total: Mapping[str, int] | None = None
    left: Mapping[str, int] | None = None


_UNKNOWN: Final = KubeSide()


def kube_side(
    nodes: Nodes, load: Callable[[str], Load], *, gpus: frozenset[str]
) -> Callable[[str], KubeSide]:
    """A function that tells the side of Kubernetes by the name of the Slurm node. `load` gives the
    pods on a Node, `gpus` are the resources that are GPUs.
    """

    def of(name: str) -> KubeSide:
        if not nodes.may_serve(name):
            return KubeSide("without a Kubernetes Node")
        if not nodes.readable:
            return _UNKNOWN
        target = nodes.kube_node(name)
        node = nodes.facts(target)
        return (
            KubeSide("without a Kubernetes Node")
            if node is None
            else _known_side(node, load(target), gpus)
        )

    return of


def _known_side(node: NodeFacts, load: Load, gpus: frozenset[str]) -> KubeSide:
    if not node.ready:
        return KubeSide("not ready in Kubernetes")
    if node.unschedulable:
        return KubeSide("cordoned in Kubernetes")
    hard = (
        str(it) for it in node.taints if it.effect in _HARD and not it.key.startswith(_KNOWN_TAINTS)
    )
    taint = next(hard, "")
    if not node.allocatable:
        return KubeSide(taint=taint)  # the kubelet has not reported yet
    total = _room_amounts(node.allocatable, {}, gpus)
    left = _room_amounts(node.allocatable, load.used, gpus)
    left[PODS_RESOURCE] = node.allocatable.get(PODS_RESOURCE, 0) - len(load.pods)
    return KubeSide(taint=taint, total=total, left=left)


def _room_amounts(
    there: Mapping[str, int], used: Mapping[str, int], gpus: frozenset[str]
) -> dict[str, int]:
    def left(name: str) -> int:
        return there.get(name, 0) - used.get(name, 0)

    return {
        CPU: left(CPU) // _MILLI,
        "memory": left("memory") // _MIB,
        _GPU: sum(map(left, gpus)),
    }


def room_of(node: SlurmNode, kube: KubeSide) -> NodeRoom:
    """What this node has for pods, in total and free now: of each resource, the lesser of what
    Slurm and Kubernetes have.
    """
    gpus, used = counts_of(node.gres, name=_GPU), counts_of(node.gres_used, name=_GPU)
    memory = node.job_memory_mib
    size = _least(node.job_cpus, memory, gpus, kube.total)
    closed = _state_text(node, _CLOSED) or kube.closed
    later = _state_text(node, _LATER)
    free = None
    if not closed and not later and _takes_another_pod(kube):
        free = _least(
            node.job_cpus - node.allocated_cpus,
            memory - node.allocated_memory_mib,
            {kind: count - used.get(kind, 0) for kind, count in gpus.items()},
            kube.left,
        )
    can_start = free is not None and free.cpus > 0 and free.memory_mib > 0
    busy = node.allocated_cpus or node.allocated_memory_mib or any(used.values())
    return NodeRoom(
        kind=_least(node.job_cpus, memory, gpus, None),
        size=size,
        free=free if can_start else None,
        closed=closed,
        later=later,
        idle=can_start and not busy,
        taint=kube.taint,
        shared_with_jobs=bool(gpus) and "EXTERNAL" not in node.states,
    )


def _state_text(node: SlurmNode, words: Mapping[str, str]) -> str:
    return next((text for state, text in words.items() if state in node.states), "")


def _takes_another_pod(kube: KubeSide) -> bool:
    return kube.left is None or kube.left[PODS_RESOURCE] > 0


def _least(
    cpus: int, memory_mib: int, gpus: Mapping[str, int], kube: Mapping[str, int] | None
) -> RoomSize:
    """What both sides have. Kubernetes does not tell Slurm's types, so its number of GPUs is a
    bound for all types together.
    """
    there = {CPU: cpus, "memory": memory_mib, _GPU: sum(gpus.values())} if kube is None else kube
    left = max(0, there[_GPU])
    found = []
    for kind, count in sorted(gpus.items())[:MOST_TYPES]:
        got = max(0, min(count, left))
        left -= got
        if got:
            found.append((kind, got))
    return RoomSize(
        max(0, min(cpus, there[CPU])), max(0, min(memory_mib, there["memory"])), tuple(found)
    )
