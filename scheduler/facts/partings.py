"""Remembers how pods end, while they can still be seen."""

from __future__ import annotations

from scheduler.facts.outcome import outcome_of
from scheduler.facts.successors import Successors
from scheduler.kube.wire import Pod
from scheduler.state.lingering import remains_of
from scheduler.state.units import Units


class Partings:
    """Called for each pod whenever it has changed."""

    def __init__(self, units: Units, successors: Successors) -> None:
        self._units = units
        self._successors = successors

    def saw(self, pod: Pod) -> None:
        """Remember how the pod ends, if it does: it may not be seen again."""
        unit = self._units.of_pod(pod.metadata.uid)
        if unit is not None:
            unit.seen.outcome = outcome_of(pod) or unit.seen.outcome
            unit.seen.remains, unit.seen.orphaned = remains_of(pod), False
            self._successors.saw(unit, pod)
