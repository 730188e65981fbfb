"""Finds the Slurm node on which a pod runs, and the pods that run without a job that is proven to
be theirs.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from scheduler.core.naming import JOB_NODES
from scheduler.facts.claims import said_on, unweighed
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import Nodes
from scheduler.slurm.ended_jobs import Unexplained
from scheduler.state.said import SaidOnPod
from scheduler.state.units import Unit, Units


class Whereabouts:
    """Uses what the watch shows, and what this process has written that it does not show yet."""

    def __init__(self, *, pods: Joined[Pod], units: Units, nodes: Nodes) -> None:
        self._pods = pods
        self._units = units
        self._nodes = nodes

    def node(self, pod: Pod, unit: Unit) -> str:
        """The Slurm node of a bound pod. Its annotation is used only if the mapping agrees, because
        the pod's author can write it too.
        """
        # A binding of this process counts even before the watch shows it.
        target = pod.spec.node_name or unit.bindings.nodes.get(pod.metadata.uid, "")
        if not target:
            return ""
        record = unit.job.record if unit.job is not None else None
        held = () if record is None else record.nodes
        said = pod.metadata.annotations.get(JOB_NODES, "")
        return self._nodes.node_of(target, said=said, held=held) or ""

    def pods(self, unit: Unit) -> tuple[Pod, ...]:
        """The unit's pods that the watch shows, in the order in which they came."""
        found = [self._pods.get(uid) for uid in unit.members]
        return tuple([pod for pod in found if pod is not None])

    def shows(self, uid: str) -> bool:
        """Whether the watch shows this pod."""
        return uid in self._pods

    def may_run(self, uid: str) -> bool:
        """Whether the watch shows this pod, and it has not finished."""
        pod = self._pods.get(uid)
        return pod is not None and not pod.finished

    def runs(self, uid: str) -> bool:
        """Whether the watch shows this pod on a Node, and it has not finished."""
        pod = self._pods.get(uid)
        return pod is not None and bool(pod.spec.node_name) and not pod.finished

    def any_on_a_node(self, unit: Unit) -> bool:
        """Whether any of the unit's pods is on a Node, or is about to be bound to one, and has not
        finished.
        """
        return any(self._is_on_a_node(uid, unit) for uid in unit.uids)

    def _is_on_a_node(self, uid: str, unit: Unit) -> bool:
        sent = uid in unit.bindings.nodes or uid in self._units.binding
        return self.may_run(uid) if sent else self.runs(uid)

    def said(self, uid: str) -> SaidOnPod:
        """What this pod says already; nothing if the watch does not show it."""
        pod = self._pods.get(uid)
        return SaidOnPod() if pod is None else said_on(pod)

    def created(self, unit: Unit) -> datetime | None:
        """When the oldest of these pods was created; see `oldest`."""
        return oldest(self.pods(unit))

    def slurm_nodes(self, unit: Unit) -> frozenset[str]:
        """The Slurm nodes behind the Nodes of these pods, as far as they are known. A pod that has
        finished needs none.
        """
        there = (pod for pod in self.pods(unit) if not pod.finished)
        return frozenset(self.node(pod, unit) for pod in there) - {""}

    async def unexplained(self) -> Unexplained:
        """Running pods without a job that Slurm has shown to be theirs. There are pauses for other
        work: 60 000 pods take 60 ms.
        """
        found, pending = dict[str, datetime | None](), False
        async for pod in self._pods.with_pauses():
            if not pod.spec.node_name or pod.finished:
                continue
            unit = self._units.of_pod(pod.metadata.uid)
            if unit is None or unit.job is None or unit.job.claimed:
                found[pod.metadata.uid] = pod.metadata.creation_timestamp
            pending = pending or unit is None or unweighed(unit)
        return Unexplained(found, pending=pending)


def oldest(pods: Iterable[Pod]) -> datetime | None:
    """When the oldest of a unit's pods was created; None if there is none, or if it is not known.
    No job of the unit is older.
    """
    moments = [it.metadata.creation_timestamp for it in pods]
    return min([it for it in moments if it is not None], default=None)
