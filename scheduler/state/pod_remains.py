"""What a pod leaves on its Node when it is gone from the API while its containers may still run,
and so how long its job is kept. (How long the job of a gang waits for pods to come again:
`core/gang.py`.)

A pod that is deleted by force, or whose Node is dead, goes without a report from its kubelet. Its
containers stop within their grace period after the kubelet hears of it; until then the node is not
free. If a pod vanished while no scheduler ran, nobody knows whether there was a report.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from annotations.grace import USUAL_GRACE
from scheduler.core.node_suitability import NodeFacts
from scheduler.core.owner_tag import OwnerTag
from scheduler.core.tagged import TaggedJob
from scheduler.kube.wire import Pod
from slurmapi import BaseState

KUBELET_SECONDS: Final = 30.0
"""Time in addition to the grace period, for the kubelet to hear of the deletion and to kill
containers that do not stop.
"""
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_HOLDING: Final = frozenset({BaseState.RUNNING, BaseState.SUSPENDED})


class Remains(msgspec.Struct, frozen=True):
    """What a pod left on its Node when it was last seen. `gone_at` is when the pod was first
    missing.
    """

    node: str
    grace_seconds: int
    gone_at: float | None = None

    @property
    def seconds(self) -> float:
        """How long its containers may run once it is gone."""
        return self.grace_seconds + KUBELET_SECONDS

    @property
    def until(self) -> float:
        """The latest time at which its containers may run; 0 while the pod still exists."""
        if self.gone_at is None:
            return 0.0
        return self.gone_at + self.seconds


def remains_of(pod: Pod) -> Remains | None:
    """What the pod would leave if it vanished now; None if none of its containers can run."""
    if not pod.spec.node_name or pod.finished or _all_ended(pod):
        return None
    return Remains(pod.spec.node_name, pod.spec.termination_grace_period_seconds)


def remains_by(record: TaggedJob, uid: str, *, kube_node: Callable[[str], str]) -> Remains | None:
    """What a pod that vanished unseen left on its Node, by the record of our job for it. None if
    that job holds no node on which the pod could have been, or if a former process had already
    waited and was about to cancel the job. `kube_node` returns the Kubernetes Node behind a Slurm
    node.
    """
    tag = record.tag
    held = record.state.base in _HOLDING and not record.state.configuring
    if tag is None or tag.outcome or not held or not record.nodes:
        return None
    # The tag of a job of an older version does not have the grace period.
    grace = USUAL_GRACE if tag.grace is None else tag.grace
    return Remains(kube_node(_node_of(record, tag, uid)), grace)


def _node_of(record: TaggedJob, tag: OwnerTag, uid: str) -> str:
    """The node of the pod's slot. If the job has lost nodes since, perhaps another."""
    slot = tag.uids.index(uid) if uid in tag.uids else 0
    if tag.at:
        return tag.at[slot]
    slots = record.slots or record.nodes
    return slots[min(slot, len(slots) - 1)]


def is_dead(node: NodeFacts | None) -> bool:
    """Whether nothing can run on the Node: it was deleted, or an administrator has tainted it out
    of service.
    """
    return node is None or any(taint.key == _OUT_OF_SERVICE for taint in node.taints)


def _all_ended(pod: Pod) -> bool:
    """Whether all containers have ended, as reported by the kubelet. A sidecar is an init container
    that runs until all others have ended, and then for its own grace period.
    """
    states = [status.state for status in pod.status.container_statuses]
    return (
        len(states) >= len(pod.spec.containers) > 0
        and all(state.terminated is not None for state in states)
        and not any(it.state.running for it in pod.status.init_container_statuses)
    )
