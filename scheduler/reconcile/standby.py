"""While another process leads: units are built from what their pods say, and nothing is written.

The handover guard needs them to know which job holds a node for which pod. When this process takes
over (`service/parts.py`, `take_over`), it drops them and starts like a new process, except that its
caches are full.
"""

from __future__ import annotations

from scheduler.facts.claims import recorded_job
from scheduler.facts.newcomers import Newcomers
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.state.member import Member
from scheduler.state.units import Unit, Units


class Standby:
    """Keeps `units` in agreement with the pods."""

    def __init__(self, newcomers: Newcomers, *, units: Units, pods: Joined[Pod]) -> None:
        self._newcomers = newcomers
        self._units = units
        self._pods = pods

    def follow(self, key: str, uid: str | None = None) -> None:
        """This pod of the unit with this key was added, changed or deleted; or any pod of it
        (None). All pods of a gang may come or change one after the other, so if one is named, the
        others are left alone unless it has gone or names another job now.
        """
        unit = self._units.get(key)
        if unit is not None and uid is not None and uid not in unit.uids:
            self._newcomers.join(unit, uid)
            return
        if unit is not None and self._is_outdated(unit, uid):
            self._units.remove(key)
            unit = None
        if unit is None or uid is None:
            self._newcomers.unit(key)

    def _is_outdated(self, unit: Unit, uid: str | None) -> bool:
        members = unit.pods if uid is None else (unit.pod(uid),)
        return any(map(self._has_changed, members))

    def _has_changed(self, member: Member) -> bool:
        pod = self._pods.get(member.uid)
        return pod is None or member.said.recorded != recorded_job(pod)
