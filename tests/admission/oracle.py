"""What the scheduler itself says to a pod, by its own parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from annotations import JobRequest, PodView, Problem, Rules, parse
from annotations.model import ContainerResources


def problems(pod: Mapping[str, Any], rules: Rules) -> tuple[Problem, ...]:
    """What is wrong with a pod, as it was sent to the API server."""
    read = parse(_spec(pod), rules)
    return () if isinstance(read, JobRequest) else read


def _spec(pod: Mapping[str, Any]) -> PodView:
    spec = pod["spec"]
    whole = spec.get("resources", {})
    return PodView(
        annotations=pod["metadata"].get("annotations", {}),
        containers=tuple(map(_container, spec["containers"])),
        init_containers=tuple(map(_container, spec.get("initContainers", ()))),
        requests=whole.get("requests", {}),
        limits=whole.get("limits", {}),
        termination_grace_period_seconds=spec.get("terminationGracePeriodSeconds", 30),
    )


def _container(it: Mapping[str, Any]) -> ContainerResources:
    resources = it.get("resources", {})
    return ContainerResources(
        name=it["name"],
        requests=resources.get("requests", {}),
        limits=resources.get("limits", {}),
        restartable=it.get("restartPolicy") == "Always",
    )
