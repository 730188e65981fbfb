"""Which pod of a unit gets which node of its job's allocation: the slots of a gang.

Slurm's record lists the nodes in rank order, and `Unit.pods` (`state/units.py`) the pods.
`waiting.py` asks before it binds; a unit of one pod has one node.
"""

from __future__ import annotations

from scheduler.core.facts import PodFacts


def node_of_each_pod(pods: tuple[PodFacts, ...], nodes: tuple[str, ...]) -> dict[str, str] | None:
    """Pod uid to node, rank by rank; None if the numbers of nodes and pods differ."""
    if len(pods) != len(nodes):
        return None
    return {pod.uid: node for pod, node in zip(pods, nodes, strict=True)}
