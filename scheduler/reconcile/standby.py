"""While another process leads: units are built from what their pods say, and nothing is written.

The handover guard needs them to know which job holds a node for which pod. When this process takes
over, it drops them and starts like a new process, except that its caches are full.
"""

from __future__ import annotations

from scheduler.facts.claims import recorded_job
from scheduler.facts.gather import Look
from scheduler.state.units import Units


class Standby:
    """Keeps `units` in agreement with the pods."""

    def __init__(self, look: Look, units: Units) -> None:
        self._look = look
        self._units = units

    def follow(self, uid: str) -> None:
        """The pod with this uid was added, changed or deleted."""
        pod, unit = self._look.pod(uid), self._units.get(uid)
        if unit is not None and (pod is None or unit.said.recorded != recorded_job(pod)):
            self._units.remove(uid)
        self._look.unit(uid)
