"""Finds the Kubernetes Node behind each Slurm node, with the same mappings as the scheduler."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from scheduler.config.settings import Settings
from scheduler.core.mapping_strategies import Strategy, Way
from scheduler.doctor.facts import KubeFacts, Pair, SlurmFacts, Unread
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import Node, Pod
from scheduler.nodes.map_file import MapFile, MapFileError
from scheduler.nodes.node_map import NodeMap
from scheduler.nodes.records import SlurmNodes
from slurmapi import SlurmNode


def pairs(
    settings: Settings,
    slurm: SlurmFacts,
    kube: KubeFacts,
    *,
    records: SlurmNodes,
    pods: Mapping[Strategy, Joined[Pod]],
) -> tuple[Pair, ...] | Unread:
    """Each Slurm node with its Node. `records` has listed Slurm's nodes, and `pods` are the slurmd
    pods of the strategies that read them. Blocks while it reads map files.
    """
    if isinstance(slurm.nodes, Unread):
        return slurm.nodes
    if isinstance(kube.nodes, Unread) and kube.nodes.cause != "denied":
        return kube.nodes
    try:
        files = {it: MapFile(Path(it.key)) for it in settings.strategies if it.way is Way.FILE}
    except MapFileError as error:
        return Unread(f"--node-mapping: {error}", "map_file")
    store = _store(kube)
    nodemap = NodeMap(settings.strategies, slurm=records, nodes=store, pods=pods, files=files)
    return tuple(_pair(node, nodemap, store) for node in slurm.nodes)


def _pair(node: SlurmNode, nodemap: NodeMap, store: Store[Node] | None) -> Pair:
    behind = nodemap.alone_behind(node.name)
    if behind is None or not behind.target:
        return Pair(node, "", "is not known" if behind is None else behind.why)
    found = None if store is None else store.by_name(behind.target)
    return Pair(node, behind.target, node=found)


def _store(kube: KubeFacts) -> Store[Node] | None:
    if isinstance(kube.nodes, Unread):
        return None
    store = Store[Node]()
    store.replace(kube.nodes)
    return store
