"""How long a job outlives a pod that is gone from the API while its containers may still run.

A pod that is deleted by force, or whose Node is dead, goes without a word from its kubelet. Its
containers stop when the kubelet hears of it, within their grace; until then the node is not free.
Of a pod that went while no scheduler ran nobody knows whether there was a word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.core.node_suitability import NodeFacts
from scheduler.core.tagged import TaggedJob
from scheduler.kube.wire import Pod
from slurmapi import BaseState

KUBELET_SECONDS: Final = 30.0
"""Beside the grace: for the kubelet to hear of it, and to kill what does not stop."""
_DEFAULT_GRACE_SECONDS: Final = 30
"""Kubernetes' own, for a job of an older version that does not tell."""
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_HOLDING: Final = frozenset({BaseState.RUNNING, BaseState.SUSPENDED})


@dataclass(frozen=True, slots=True)
class Remains:
    """What a pod left on that Kubernetes Node when it was last seen; `gone_at` is when it was first
    missed.
    """

    node: str
    grace_seconds: int
    gone_at: float | None = None

    @property
    def until(self) -> float:
        """When its containers have stopped, whatever became of them; 0 while the pod is there."""
        if self.gone_at is None:
            return 0.0
        return self.gone_at + self.grace_seconds + KUBELET_SECONDS


def remains_of(pod: Pod) -> Remains | None:
    """None where no container of the pod can run any more, or could yet."""
    if not pod.spec.node_name or pod.finished or _all_ended(pod):
        return None
    return Remains(pod.spec.node_name, pod.spec.termination_grace_period_seconds)


def remains_by(record: TaggedJob, *, kube_node: Callable[[str], str]) -> Remains | None:
    """The same of a pod that went unseen, by the record of our job for it: None where that holds no
    node on which the pod could have been, or where a former process was about to cancel it, having
    waited. `kube_node` tells the Kubernetes Node behind one.
    """
    tag = record.tag
    held = record.state.base in _HOLDING and not record.state.configuring
    if tag is None or tag.outcome or not held or not record.nodes:
        return None
    grace = _DEFAULT_GRACE_SECONDS if tag.grace is None else tag.grace
    return Remains(kube_node(record.nodes[0]), grace)


def is_dead(node: NodeFacts | None) -> bool:
    """Whether nothing runs on the Node any more: it was deleted, or an administrator says so."""
    return node is None or any(taint.key == _OUT_OF_SERVICE for taint in node.taints)


def _all_ended(pod: Pod) -> bool:
    """By what the kubelet has reported of each container. A sidecar, which is an init container,
    runs on until all others have ended, and after that for its own grace.
    """
    states = [status.state for status in pod.status.container_statuses]
    return (
        len(states) >= len(pod.spec.containers) > 0
        and all(state.terminated is not None for state in states)
        and not any(it.state.running for it in pod.status.init_container_statuses)
    )
