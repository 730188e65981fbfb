"""Gives `core.membership` a pod as Kubernetes sends it."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.core.gang_sources import GroupView, Maker
from scheduler.kube.wire import Pod


def group_view(pod: Pod, annotations: Mapping[str, str], prefixes: tuple[str, ...]) -> GroupView:
    """The parts of the pod that say to which gang it belongs, with these annotations in place of
    its own.
    """
    meta = pod.metadata
    group = pod.spec.scheduling_group
    return GroupView(
        namespace=meta.namespace,
        name=meta.name,
        prefixes=prefixes,
        labels=meta.labels,
        annotations=annotations,
        controller=_controller(pod),
        scheduling_group="" if group is None else group.pod_group_name or "",
    )


def _controller(pod: Pod) -> Maker | None:
    for it in pod.metadata.owner_references:
        if it.controller:
            return Maker(it.kind, it.api_version, it.name, it.uid)
    return None
