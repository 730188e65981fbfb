"""Remembers how pods end, while they can still be seen."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.facts.outcome import outcome_of
from scheduler.facts.successors import Successors
from scheduler.kube.wire import Pod
from scheduler.state.pod_remains import deletion_of, remains_of
from scheduler.state.units import Units


class Partings:
    """Called for each pod whenever it has changed."""

    def __init__(self, units: Units, successors: Successors, *, clock: Callable[[], float]) -> None:
        self._units = units
        self._successors = successors
        self._clock = clock

    def saw(self, pod: Pod) -> None:
        """If the pod has ended or is ending, remember how: it may not be seen again."""
        uid = pod.metadata.uid
        unit = self._units.of_pod(uid)
        if unit is not None:
            seen = unit.pod(uid).seen
            outcome = outcome_of(pod)
            seen.outcome = outcome or seen.outcome
            now = self._clock()
            seen.deletion = deletion_of(pod, seen.deletion, now=now)
            seen.remains, seen.orphaned = remains_of(pod, seen.deletion, now=now), False
            seen.placed = seen.placed or bool(pod.spec.node_name)
            if outcome or pod.condition("DisruptionTarget") is not None:
                self._successors.saw(unit, pod)
