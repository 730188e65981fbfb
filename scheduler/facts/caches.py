"""What is known of the cluster: caches that others keep up to date."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.node_kinds import NodeKinds
from scheduler.nodes.volumes import Volumes
from scheduler.policy.rulebook import Rulebook


@dataclass(frozen=True, slots=True)
class Caches:
    """The caches. `doubt_pods` makes the watch list all pods again. `mapped` returns when all pods
    are listed and Slurm's nodes are mapped.
    """

    pods: Joined[Pod]
    nodes: Nodes
    kinds: NodeKinds
    fit: NodeFit
    volumes: Volumes
    rulebook: Rulebook
    doubt_pods: Callable[[], None]
    mapped: Callable[[], Awaitable[None]]
