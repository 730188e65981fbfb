"""Neighbours: pods on Nodes, of all schedulers, reduced to what matters for placing other pods.

Fifty thousand of them take less than 25 MB. The common part of pods of one template is stored once,
labels are stored as one text, and no list of a page's pods outlives the page.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.core.labels import packed
from scheduler.core.node_requests import PLAIN, Amounts
from scheduler.kube.demands import apart_read, ports_of, requests_of
from scheduler.kube.shape import Shape
from scheduler.kube.store import Change, Store
from scheduler.kube.wire import RESIDENTS, Decode, Pod, PodStatus, Resident, mapped

T = TypeVar("T")

# Neither a pod that has ended nor a pod without a Node uses anything of a Node.
_ON_NODES: Final = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
# The number of templates whose common part is stored only once.
_SHARED: Final = 4096
# The number of host ports that are kept for one pod. Pods that relay media open whole ranges.
MOST_PORTS: Final = 1024
# The number of resources that are kept for one pod. A pod may name thousands of extended ones.
MOST_AMOUNTS: Final = 64


def on_nodes(*, but_those_of: str = "") -> dict[str, str]:
    """What selects pods on Nodes: all of them, but those of this scheduler if one is named."""
    without = f",spec.schedulerName!={but_those_of}" if but_those_of else ""
    return {"fieldSelector": _ON_NODES + without}


class Neighbour(msgspec.Struct, frozen=True, gc=False):
    """A pod on a Node. `labels` are packed; `leaving` says that it is being deleted."""

    uid: str
    resource_version: str
    namespace: str
    name: str
    node: str
    scheduler: str
    labels: str
    shape: Shape
    leaving: bool = False

    @property
    def metadata(self) -> Neighbour:
        """The object itself, because a reflector reads uid, name and version from `metadata`."""
        return self

    def like(self, other: Neighbour) -> bool:
        """Whether nothing but the version differs."""
        return replace(self, resource_version=other.resource_version) == other


@lru_cache(maxsize=_SHARED)
def _once(value: T) -> T:
    return value


def neighbour(pod: Resident, *, node: str = "", requests: Amounts | None = None) -> Neighbour:
    """The pod as a neighbour of other pods, on `node` if given, else on the Node of its spec. What
    it requests is computed if it is not given.
    """
    meta, dropped = pod.metadata, pod.oversize if isinstance(pod, Pod) else None
    if dropped is not None and dropped.shape is not None:
        labels, shape = dropped.labels, dropped.shape
    else:
        labels, shape = packed(meta.labels), seen_by_others(pod, requests)
    return Neighbour(
        uid=meta.uid,
        resource_version=meta.resource_version,
        namespace=intern(meta.namespace),
        name=meta.name,
        node=intern(node or pod.spec.node_name),
        scheduler=intern(pod.spec.scheduler_name),
        labels=_once(labels),
        shape=_once(shape),
        leaving=meta.deletion_timestamp is not None,
    )


def seen_by_others(pod: Resident, requests: Amounts | None = None) -> Shape:
    """What the pod means for others on its Node. What it requests is computed if not given."""
    return Shape(
        _kept_amounts(requests_of(pod) if requests is None else requests),
        ports_of(pod, most=MOST_PORTS),
        apart_read(pod),
    )


def _kept_amounts(requests: Amounts) -> Amounts:
    if len(requests) <= MOST_AMOUNTS:
        return requests
    wanted = sorted(requests, key=lambda it: it[0] not in PLAIN)
    return tuple(sorted(wanted[:MOST_AMOUNTS]))


def same_for_others(old: Pod, new: Pod, *, but_node: bool = False) -> bool:
    """Whether nothing has changed of a pod that other pods depend on; with `but_node` its Node may
    have. Costs less than to compare two neighbours.
    """
    before, after = old.metadata, new.metadata
    spec = replace(old.spec, node_name=new.spec.node_name) if but_node else old.spec
    return (
        spec == new.spec
        and before.labels == after.labels
        and (before.deletion_timestamp is None) == (after.deletion_timestamp is None)
        and old.finished == new.finished
        and old.oversize == new.oversize
        and _reported_sizes(old.status) == _reported_sizes(new.status)
    )


def _reported_sizes(status: PodStatus) -> list[object]:
    """What the kubelet reports of resources: a resize may change them. An older kubelet reports
    none of a container that has just started.
    """
    containers = (*status.init_container_statuses, *status.container_statuses)
    resizes = [it for it in status.conditions if it.type == "PodResizePending"]
    sizes = [
        (it.name, it.resources, it.allocated_resources)
        for it in containers
        if it.resources is not None or it.allocated_resources
    ]
    return [*resizes, *sizes]


class NeighbourStore(Store[Neighbour]):
    """Neighbours by uid. There is no index by name, because it would cost as much memory again."""

    def apply(self, item: Neighbour) -> tuple[Change[Neighbour], ...]:
        """Store a pod's newer state."""
        old = self.items.get(item.uid)
        self.items[item.uid] = item
        return (Change(old, item),)

    def remove(
        self,
        uid: str,
        *,
        last: Neighbour | None = None,  # noqa: ARG002 - sums hold the earlier state
    ) -> tuple[Change[Neighbour], ...]:
        """Remove a pod. The change holds the state that was reported before, not `last`."""
        old = self.items.pop(uid, None)
        return () if old is None else (Change(old, None),)


NEIGHBOURS: Final[Decode[Neighbour]] = mapped(RESIDENTS, neighbour)
