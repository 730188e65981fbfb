"""What a pod leaves on its Node when it is gone from the API while its containers may still run,
and so how long its job is kept. (How long the job of a gang waits for pods to come again:
`core/gang.py`.)

A pod that is deleted by force, or whose Node is dead, goes without a report from its kubelet. Its
containers stop within their grace period after the kubelet hears of it; until then the node is not
free. If a pod vanished while no scheduler ran, nobody knows whether there was a report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from annotations.grace import USUAL_GRACE
from scheduler.core.node_suitability import NodeFacts
from scheduler.core.owner_tag import OwnerTag
from scheduler.core.tagged import TaggedJob
from scheduler.kube.wire import Pod, StateTerminated
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


class Deletion(msgspec.Struct, frozen=True):
    """The graceful deletion of a pod: the grace period that it gave, in seconds, and since when
    the pod has shown it.
    """

    grace_seconds: int
    since: float

    def seconds_left(self, now: float) -> int:
        """What is left of the grace period; negative if it is over."""
        return math.ceil(self.since + self.grace_seconds - now)


def deletion_of(pod: Pod, known: Deletion | None, *, now: float) -> Deletion | None:
    """The graceful deletion that this state of the pod shows, or else `known`, the one that
    earlier states have shown. A grace period of 0 belongs to the removal that follows at once,
    forced or not.
    """
    grace = pod.metadata.deletion_grace_period_seconds
    if pod.metadata.deletion_timestamp is None or not grace:
        return known
    if known is not None and known.grace_seconds == grace:
        return known
    return Deletion(grace, now)


def remains_of(pod: Pod, deletion: Deletion | None, *, now: float) -> Remains | None:
    """What the pod would leave if it vanished now; None if none of its containers can run.

    `deletion` is its graceful deletion. If that gives the containers longer than the pod's spec,
    the kubelet waits that long before it kills them, even if the pod is then deleted by force.
    """
    if not pod.spec.node_name or pod.finished or _have_stopped(pod, deletion):
        return None
    grace = pod.spec.termination_grace_period_seconds
    if deletion is not None:
        grace = max(grace, deletion.seconds_left(now))
    return Remains(pod.spec.node_name, grace)


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


def _have_stopped(pod: Pod, deletion: Deletion | None) -> bool:
    """Whether all containers have ended, as reported by the kubelet, and it starts none of them
    again. A sidecar is an init container that runs until all others have ended, and then for its
    own grace period.
    """
    ends = [it.state.terminated for it in pod.status.container_statuses]
    ended = [it for it in ends if it is not None]
    return (
        len(ended) == len(ends) >= len(pod.spec.containers) > 0
        and not any(it.state.running for it in pod.status.init_container_statuses)
        and (deletion is not None or _stay_ended(pod, ended))
    )


def _stay_ended(pod: Pod, ended: Sequence[StateTerminated]) -> bool:
    """Whether the kubelet starts none of these containers again, although the pod is not being
    deleted. A container may have its own policy with rules, which are not read, so it may start.
    """
    if any(it.restart_policy is not None for it in pod.spec.containers):
        return False
    policy = pod.spec.restart_policy
    return policy == "Never" or (policy == "OnFailure" and all(it.exit_code == 0 for it in ended))
