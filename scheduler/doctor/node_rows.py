"""Each Slurm node with its Kubernetes Node: what it has, who holds it, why it would be refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduler.core.node_gres import count_of
from scheduler.doctor.facts import NodePods, Pair, PodsOnNodes, Unread
from scheduler.doctor.finding import plain
from scheduler.kube.wire import Node
from scheduler.nodes.records import OFF
from slurmapi import SlurmNode

_MILLI: Final = 1000
_MIB: Final = 2**20
_GPU: Final = "gpu"
# A node with one of these gets no job.
_CLOSED: Final = frozenset({"DOWN", "DRAIN", "FAIL", "FUTURE", "MAINTENANCE", "ERROR", "UNKNOWN"})
_REPELS: Final = frozenset({"NoSchedule", "NoExecute"})
# The API server sets these by what stands in other fields, which are shown in words.
_KNOWN_TAINTS: Final = "node.kubernetes.io/"
_NOBODY: Final = NodePods(0, {})


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a resource there is: held by pods, held by other jobs, free in Slurm, in all."""

    pods: int
    jobs: int
    free: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A Slurm node. `node` is its Node, "" if there is none; `ready` the state of that, "" if it is
    not known. Memory is in MiB. `refused` are the reasons for which a pod would be refused, or
    could be.
    """

    name: str
    states: tuple[str, ...]
    partitions: tuple[str, ...]
    node: str
    ready: str
    cpus: Amount
    memory_mib: Amount
    gpus: Amount
    refused: tuple[str, ...]


def rows(
    pairs: Iterable[Pair],
    *,
    ours: PodsOnNodes | Unread,
    others: PodsOnNodes | Unread,
    resources: Mapping[str, str],
) -> list[NodeRow]:
    """A row for each pair. `ours` are the pods of this scheduler on Nodes, `others` those of other
    schedulers; with an Unread nothing is known of them. `resources` maps resources of Kubernetes to
    Slurm's gres.
    """
    return [_node_row(it, _on(ours, it.target), _on(others, it.target), resources) for it in pairs]


def _on(crowd: PodsOnNodes | Unread, target: str) -> NodePods:
    return _NOBODY if isinstance(crowd, Unread) else crowd.on.get(target, _NOBODY)


def _node_row(
    pair: Pair, ours: NodePods, others: NodePods, resources: Mapping[str, str]
) -> NodeRow:
    node, asked = pair.slurm, ours.requests
    gpus = [name for name, gres in resources.items() if gres.partition(":")[0] == _GPU]
    held = {
        "cpus": -(-asked.get("cpu", 0) // _MILLI),
        "memory": -(-asked.get("memory", 0) // _MIB),
        "gpus": sum(asked.get(it, 0) for it in gpus),
    }
    cpus = _amount(held["cpus"], node.allocated_cpus, node.cpus, for_jobs=node.job_cpus)
    memory = _amount(
        held["memory"],
        node.allocated_memory_mib,
        node.memory_mib,
        for_jobs=node.job_memory_mib,
    )
    used, total = count_of(node.gres_used, _GPU), count_of(node.gres, _GPU)
    devices = _amount(held["gpus"], used, total, for_jobs=total)
    short = {"CPUs": cpus.free, "MiB of memory": memory.free, "GPUs": devices.free}
    return NodeRow(
        name=node.name,
        states=_states(node),
        partitions=node.partitions,
        node=pair.target,
        ready=_ready(pair.node),
        cpus=cpus,
        memory_mib=memory,
        gpus=devices,
        refused=tuple(map(plain, _refused(pair, ours, others, free=short, gpus=gpus))),
    )


def _amount(pods: int, allocated: int, total: int, *, for_jobs: int) -> Amount:
    """`for_jobs` is the part of the total that Slurm gives to jobs."""
    return Amount(pods, max(0, allocated - pods), max(0, for_jobs - allocated), total)


def _states(node: SlurmNode) -> tuple[str, ...]:
    """The base state first, which is none of the flags that may stand beside it."""
    bases = ("IDLE", "MIXED", "ALLOCATED", "DOWN", "ERROR", "FUTURE", "UNKNOWN")
    base = next((it for it in bases if it in node.states), "")
    return tuple(filter(None, (base, *sorted(node.states - {base}))))


def _ready(node: Node | None) -> str:
    if node is None:
        return ""
    ready = "Ready" if node.ready else "NotReady"
    return f"{ready},SchedulingDisabled" if node.spec.unschedulable else ready


def _refused(
    pair: Pair, ours: NodePods, others: NodePods, *, free: Mapping[str, int], gpus: list[str]
) -> Iterator[str]:
    closed = sorted(pair.slurm.states & (_CLOSED | OFF))
    if closed:
        yield f"Slurm: {'+'.join(closed)}"
    if not pair.target:
        yield f"no Node: {pair.why}"
        return
    node = pair.node
    if node is None:
        return
    if not node.ready:
        yield "the Node is not ready"
    if node.spec.unschedulable:
        yield "the Node is cordoned"
    for taint in node.spec.taints:
        if taint.effect in _REPELS and not taint.key.startswith(_KNOWN_TAINTS):
            yield f"taint {taint.key}={taint.value}:{taint.effect}, unless the pod tolerates it"
    yield from _too_little(node, ours, others, free=free, gpus=gpus)


def _too_little(
    node: Node, ours: NodePods, others: NodePods, *, free: Mapping[str, int], gpus: list[str]
) -> Iterator[str]:
    """What Slurm counts as free, and the Node has not, beside the pods that are there."""
    there = node.facts.allocatable
    if not there:
        return  # the kubelet has not reported yet
    left = {
        name: amount - ours.requests.get(name, 0) - others.requests.get(name, 0)
        for name, amount in there.items()
    }
    has = {
        "CPUs": left.get("cpu", 0) // _MILLI,
        "MiB of memory": left.get("memory", 0) // _MIB,
        "GPUs": sum(left.get(it, 0) for it in gpus),
    }
    for what, amount in free.items():
        if has[what] < amount:
            beside = f", {others.pods} pods of other schedulers are there" if others.pods else ""
            yield f"{amount} {what} free in Slurm, {max(0, has[what])} on the Node{beside}"


def node_as_object(row: NodeRow) -> dict[str, Any]:
    """The row for programs. Null stands for what is not known."""
    amounts = {"cpus": row.cpus, "memoryMiB": row.memory_mib, "gpus": row.gpus}
    return {
        "name": row.name,
        "states": list(row.states),
        "partitions": list(row.partitions),
        "node": row.node or None,
        "nodeState": row.ready or None,
        **{
            name: {"pods": it.pods, "jobs": it.jobs, "free": it.free, "total": it.total}
            for name, it in amounts.items()
        },
        "refused": list(row.refused),
    }
