"""The stage of a pod's life."""

from __future__ import annotations

from scheduler.core.facts import PodStage
from scheduler.kube.wire import Pod


def stage_of(pod: Pod, *, bound: bool) -> PodStage:
    """The pod's stage. `bound` says that a binding was made that the watch may not show yet."""
    if pod.finished:
        return PodStage.FINISHED
    going = pod.metadata.deletion_timestamp is not None
    if pod.spec.node_name or bound:
        return PodStage.DEPARTING if going else PodStage.BOUND
    if going:
        return PodStage.WITHDRAWN
    return PodStage.GATED if pod.spec.scheduling_gates else PodStage.WAITING
