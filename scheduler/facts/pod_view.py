"""Gives `annotations.parse` a pod as Kubernetes sends it."""

from __future__ import annotations

from collections.abc import Mapping

from annotations import AffinityExpression, ContainerResources, PodView
from scheduler.kube.wire import Container, Pod, Quantity, ResourceRequirements

_Amounts = Mapping[str, Quantity]


def view_of(pod: Pod, annotations: Mapping[str, str]) -> PodView:
    """The parts of the pod that determine its job, with these annotations in place of its own."""
    whole, held = pod.spec.resources or ResourceRequirements(), kept_sizes(pod)
    return PodView(
        annotations=annotations,
        containers=tuple(_resources(it, held) for it in pod.spec.containers),
        init_containers=tuple(_resources(it, held) for it in pod.spec.init_containers),
        overhead=_as_texts(pod.spec.overhead),
        requests=_as_texts(whole.requests),
        limits=_as_texts(whole.limits),
        node_selector=pod.spec.node_selector,
        node_affinity=_required_affinity(pod),
        termination_grace_period_seconds=pod.spec.termination_grace_period_seconds,
        active_deadline_seconds=pod.spec.active_deadline_seconds,
    )


def kept_sizes(pod: Pod) -> Mapping[str, _Amounts]:
    """What the kubelet has given to each container, by name, if its Node refuses a resize of the
    pod, or cannot do it now. Then the spec requests what the pod may never have.
    """
    if pod.condition("PodResizePending") is None:
        return {}
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return {it.name: it.allocated_resources for it in statuses if it.allocated_resources}


def _required_affinity(pod: Pod) -> tuple[tuple[AffinityExpression, ...], ...] | None:
    """The terms of which one must match; None if the pod has no such affinity."""
    of_nodes = None if pod.spec.affinity is None else pod.spec.affinity.node_affinity
    required = of_nodes and of_nodes.required_during_scheduling_ignored_during_execution
    if not required:
        return None
    return tuple(
        tuple(AffinityExpression(it.key, it.operator, it.values) for it in term.match_expressions)
        for term in required.node_selector_terms or ()
    )


def _resources(container: Container, held: Mapping[str, _Amounts]) -> ContainerResources:
    requests = _as_texts(container.resources.requests)
    return ContainerResources(
        name=container.name,
        requests=requests | _as_texts(held.get(container.name, {})),
        limits=_as_texts(container.resources.limits),
        restartable=container.restart_policy == "Always",
    )


def _as_texts(quantities: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(quantity) for name, quantity in quantities.items()}
