"""Gauges by namespace and partition: the GPUs that pods hold and wait for, and who waits longest.

`unit_counts.py` goes through the units and hands them over, each with its state.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from groundwork.pauses import in_slices
from scheduler.kube.demands import requests_of
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.observe.metrics import Metrics
from scheduler.observe.place_series import (
    MOST_PLACES,
    NO_PARTITION,
    OTHER,
    REST,
    SEVERAL_PARTITIONS,
    PlaceLabels,
    partition_label,
)
from scheduler.service.series import Series
from scheduler.state.units import Unit

_NO_NAMES: Final = frozenset({NO_PARTITION, SEVERAL_PARTITIONS, OTHER})
_HOLDING: Final = frozenset({"running", "suspended"})


@dataclass(slots=True)
class _Sum:
    """What the pods of a place have together. `oldest` is when the first of those that wait was
    created, in seconds since the epoch.
    """

    count: int = 0
    held: int = 0
    wanted: int = 0
    oldest: float = math.inf

    def add(self, other: _Sum) -> None:
        """Add another place."""
        self.count += other.count
        self.held += other.held
        self.wanted += other.wanted
        self.oldest = min(self.oldest, other.oldest)


class PlaceCounts:
    """Counts pods by place. `gpus` are the resources that are GPUs."""

    def __init__(self, metrics: Metrics, *, pods: Joined[Pod], gpus: frozenset[str]) -> None:
        self._waits = metrics.queue_waits
        self._pods = pods
        self._names = gpus
        self._gpus = Series(metrics.gpus)
        self._oldest = Series(metrics.oldest_waiting_pod)
        self._found: dict[PlaceLabels, _Sum] = {}
        # What pods ask for is read again only after they have changed: it takes 20 µs for each
        # whose kubelet reports what its containers have.
        self._known: dict[str, tuple[Pod, int]] = {}
        self._read: dict[str, tuple[Pod, int]] = {}

    async def add(self, unit: Unit, *, partition: str, state: str) -> None:
        """Count the pods of the unit, whose placeholder is in this state. There are pauses for
        other work within a gang: to read what a pod asks for takes 100 us if it has many
        containers.
        """
        found = self._found.setdefault((unit.namespace, partition), _Sum())
        if len(unit.pods) == 1:
            self._add(unit.pods[0].uid, found, holds=state in _HOLDING)
            return
        async for member in in_slices(unit.pods):
            # A pod of a gang that runs may have no slot in its job.
            self._add(member.uid, found, holds=False)

    def _add(self, uid: str, found: _Sum, *, holds: bool) -> None:
        pod = self._pods.get(uid)
        if pod is None or pod.finished:
            return
        found.count += 1
        if pod.spec.node_name or holds:
            found.held += self._gpus_of(pod)
        elif _waits(pod):
            found.wanted += self._gpus_of(pod)
            created = pod.metadata.creation_timestamp
            if created is not None:
                found.oldest = min(found.oldest, created.timestamp())

    def show(self, now: float) -> None:
        """Show what was counted, and begin anew."""
        found = _largest_places(self._found)
        self._known, self._read, self._found = self._read, {}, {}
        self._gpus.show(dict(_gpus_by_state(found)))
        self._oldest.show({it: one.oldest for it, one in found.items() if one.oldest < math.inf})
        for place, one in found.items():
            if place[1] not in _NO_NAMES and one.oldest < math.inf:
                self._waits.begin(place, now=now)

    def _gpus_of(self, pod: Pod) -> int:
        uid = pod.metadata.uid
        known = self._known.get(uid)
        if known is None or known[0] is not pod:
            amounts = dict(requests_of(pod)) if self._names else {}
            known = (pod, sum(amounts.get(it, 0) for it in self._names))
        self._read[uid] = known
        return known[1]


def partition_of(unit: Unit) -> str:
    """The partition of the unit's job as a label (`observe/place_series.py`)."""
    record = None if unit.job is None else unit.job.record
    return partition_label("" if record is None else record.partition)


def _waits(pod: Pod) -> bool:
    return not pod.spec.scheduling_gates and pod.metadata.deletion_timestamp is None


def _largest_places(found: Mapping[PlaceLabels, _Sum]) -> dict[PlaceLabels, _Sum]:
    """The places with most pods, and all others added up as one."""
    sizes = Counter({place: it.count for place, it in found.items()})
    shown = {place: found[place] for place, _ in sizes.most_common(MOST_PLACES)}
    rest = _Sum()
    for place in found.keys() - shown.keys():
        rest.add(found[place])
    return shown | ({REST: rest} if rest.count else {})


def _gpus_by_state(found: Mapping[PlaceLabels, _Sum]) -> Iterable[tuple[tuple[str, ...], float]]:
    for place, it in found.items():
        for state, number in (("held", it.held), ("waiting", it.wanted)):
            if number:
                yield (*place, state), number
