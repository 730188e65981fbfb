"""Finds the Kubernetes Nodes to which a pod may go, and what prevents a bind there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.core.in_the_way import InWay
from scheduler.core.node_suitability import Place, Wishes
from scheduler.facts.caches import Caches
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import NOT_SURVEYED, Survey
from scheduler.nodes.coverage import Coverage
from scheduler.state.units import Unit

_NO_WISHES: Final = Wishes()
_ALIKE: Final[Mapping[str, Pod]] = MappingProxyType({})


class Placing(msgspec.Struct, frozen=True):
    """Where a unit may go. `nodes` are those that its job holds, with the Nodes behind them;
    `excluded` those that its job must not get, with reasons. `nowhere` says why no Node can take
    its pod; "" if some can. `uncompared_since` is set while the pod waits to be compared with
    Nodes.
    """

    nodes: Mapping[str, Place]
    excluded: Mapping[str, str]
    nowhere: str
    uncompared_since: float | None
    excluded_for: Mapping[str, Mapping[str, str]]
    """As `excluded`, by kind of the pods, if a gang has several shapes."""


class Places:
    """Asks the caches of Nodes and of the pods on them."""

    def __init__(self, caches: Caches, *, coverage: Coverage, clock: Callable[[], float]) -> None:
        self._pods = caches.pods
        self._nodes = caches.nodes
        self._fit = caches.fit
        self._coverage = coverage
        self._clock = clock

    def of(self, unit: Unit, pod: Pod | None, by_kind: Mapping[str, Pod] = _ALIKE) -> Placing:
        """Where the unit may go. Without a pod, only what depends on its job. If the pods of a gang
        have several shapes, `by_kind` has a pod of each kind that waits.
        """
        if by_kind and pod is not None:
            return self._of_shapes(unit, {kind: self.of(unit, it) for kind, it in by_kind.items()})
        waiting = None if pod is None or pod.spec.node_name else pod
        uncompared, survey = None, NOT_SURVEYED
        if waiting is not None:
            holds = bool(_nodes_of_job(unit))
            uncompared = self._fit.waits_since(waiting, holds_nodes=holds)
            if not holds:  # a job that has its nodes excludes no others any more
                survey = self._fit.survey(waiting)
        compared = None if uncompared is not None else waiting
        return Placing(
            nodes=self._of_job(unit, pod, compared),
            excluded=self._excluded(unit, survey),
            nowhere="" if unit.job is not None else survey.nowhere,
            uncompared_since=uncompared,
            excluded_for={},
        )

    def _of_shapes(self, unit: Unit, found: Mapping[str, Placing]) -> Placing:
        """Each node with the pods that go there."""
        first, *_ = found.values()
        kinds = _kind_of_node(unit)
        nodes = {node: kinds.get(node, "") for node in first.nodes}
        waits = [it.uncompared_since for it in found.values() if it.uncompared_since is not None]
        return Placing(
            nodes={node: found.get(kind, first).nodes[node] for node, kind in nodes.items()},
            excluded=first.excluded,
            nowhere=next((it.nowhere for it in found.values() if it.nowhere), ""),
            uncompared_since=min(waits, default=None),
            excluded_for={kind: it.excluded for kind, it in found.items()},
        )

    def in_way(self, unit: Unit, pods: Sequence[Pod], places: Mapping[str, Place]) -> InWay | None:
        """What prevents a bind of the unit's pods that wait. For those on a Node, note their
        coverage.
        """
        on_nodes, bound = 0, unit.bindings.nodes
        for pod in pods:
            on_nodes += bool(pod.spec.node_name) or pod.metadata.uid in bound
        if on_nodes:
            self._coverage.saw(unit)
        if on_nodes == len(pods):
            return None
        return self._coverage.in_way(unit, [it.target for it in places.values() if it.target])

    def claim(self, uid: str, target: str) -> bool:
        """Whether the pod still fits on this Node. If it does, its place is reserved."""
        pod = self._pods.get(uid)
        return pod is None or self._fit.claim(pod, target)

    def _of_job(self, unit: Unit, pod: Pod | None, compared: Pod | None) -> dict[str, Place]:
        alike = {} if unit.gang is None else self._on_each_node(unit)
        places = {
            node: self._place(node, pod, compared, alike.get(node, 1))
            for node in _nodes_of_job(unit)
        }
        return {node: place for node, place in places.items() if place is not None}

    def _on_each_node(self, unit: Unit) -> dict[str, int]:
        """How many pods of a gang are about to be bound on each node."""
        record = None if unit.job is None else unit.job.record
        begun = unit.bindings.nodes or any(pod.seen.placed for pod in unit.pods)
        if record is None or record.tag is None or begun:
            return {}
        return {node: room for rooms in record.rooms for node, room in rooms.items()}

    def _place(self, node: str, pod: Pod | None, compared: Pod | None, alike: int) -> Place | None:
        """The Node behind this Slurm node, checked against the pod's own requirements. If the pod
        waits and has been `compared`, it is checked against the pods that are there too, together
        with the others of its gang that go there.
        """
        place = self._nodes.place(node, _NO_WISHES if pod is None else pod.spec.wishes)
        if place is None or place.unfit is not None or compared is None:
            return place
        unfit = self._fit.unfit(compared, place.target, alike=alike)
        return place if unfit is None else replace(place, unfit=unfit)

    def _excluded(self, unit: Unit, survey: Survey) -> Mapping[str, str]:
        learnt = unit.asked.exclusions.active(self._clock())
        return {**survey.ruled_out, **learnt} if learnt else survey.ruled_out


def _kind_of_node(unit: Unit) -> dict[str, str]:
    """The kind of the slots on each node of the unit's job, if it is heterogeneous."""
    record = None if unit.job is None else unit.job.record
    if record is None or record.tag is None or not record.tag.parts:
        return {}
    pairs = zip(record.parts, record.tag.parts, strict=False)
    return {node: part.kind for held, part in pairs for node in held.nodes}


def _nodes_of_job(unit: Unit) -> tuple[str, ...]:
    """The nodes that the unit's job holds."""
    record = None if unit.job is None else unit.job.record
    return () if record is None else record.nodes
