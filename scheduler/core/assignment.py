"""Which pod of a unit gets which node of its job's allocation."""

from __future__ import annotations

from scheduler.core.facts import PodFacts


def node_of_each_pod(pods: tuple[PodFacts, ...], nodes: tuple[str, ...]) -> dict[str, str] | None:
    """Pod uid to node, rank by rank; None if the numbers of nodes and pods differ."""
    if len(pods) != len(nodes):
        return None
    return {pod.uid: node for pod, node in zip(pods, nodes, strict=True)}
