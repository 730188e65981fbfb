"""Remembers how pods end, while they can still be seen."""

from __future__ import annotations

from scheduler.facts.outcome import outcome_of
from scheduler.facts.successors import Successors
from scheduler.kube.wire import Pod
from scheduler.state.pod_remains import remains_of
from scheduler.state.units import Units


class Partings:
    """Called for each pod whenever it has changed."""

    def __init__(self, units: Units, successors: Successors) -> None:
        self._units = units
        self._successors = successors

    def saw(self, pod: Pod) -> None:
        """If the pod has ended or is ending, remember how: it may not be seen again."""
        uid = pod.metadata.uid
        unit = self._units.of_pod(uid)
        if unit is not None:
            seen = unit.pod(uid).seen
            outcome = outcome_of(pod)
            seen.outcome = outcome or seen.outcome
            seen.remains, seen.orphaned = remains_of(pod), False
            seen.placed = seen.placed or bool(pod.spec.node_name)
            if outcome or pod.condition("DisruptionTarget") is not None:
                self._successors.saw(unit, pod)
