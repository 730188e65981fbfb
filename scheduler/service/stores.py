"""Where the watches of a process keep what the API server shows, except our own pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduler.core.mapping_strategies import Strategy, Way
from scheduler.kube.neighbours import NeighbourStore
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import Namespace, Node, PersistentVolume, Pod


@dataclass(frozen=True, slots=True)
class Stores:
    """Each is written by one watch. `slurmd_pods` are those that a node mapping reads."""

    nodes: Store[Node] = field(default_factory=Store[Node])
    neighbours: NeighbourStore = field(default_factory=NeighbourStore)
    volumes: Store[PersistentVolume] = field(default_factory=Store[PersistentVolume])
    namespaces: Store[Namespace] = field(default_factory=Store[Namespace])
    slurmd_pods: Mapping[Strategy, Joined[Pod]] = field(default_factory=dict)


def stores_for(strategies: Iterable[Strategy]) -> Stores:
    """Empty stores, with one for the slurmd pods of each mapping that reads them."""
    return Stores(slurmd_pods={it: Joined[Pod]() for it in strategies if it.way is Way.SLURMD_POD})
