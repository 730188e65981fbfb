"""While another process leads: units are what the pods say of themselves, and nothing is done.

From them the guard knows which job holds a node for which pod. Nothing of it is kept when this
process takes over: it begins as one that has just been started, with all it needs in its caches.
"""

from __future__ import annotations

from scheduler.facts.claims import recorded_job
from scheduler.facts.gather import Look
from scheduler.state.units import Units


class Standby:
    """Keeps `units` in step with the pods."""

    def __init__(self, look: Look, units: Units) -> None:
        self._look = look
        self._units = units

    def follow(self, uid: str) -> None:
        """The pod of that uid has changed, come or gone."""
        pod, unit = self._look.pod(uid), self._units.get(uid)
        if unit is not None and (pod is None or unit.said.recorded != recorded_job(pod)):
            self._units.remove(uid)
        self._look.unit(uid)
