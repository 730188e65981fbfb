"""Makes the units of pods that are new to this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.core.facts import PodStage
from scheduler.facts.caches import Caches
from scheduler.facts.claims import BEFORE_US, recorded_job
from scheduler.facts.stage import stage_of
from scheduler.facts.successors import Successors
from scheduler.kube.wire import Pod
from scheduler.slurm.census import Census
from scheduler.state.member import Member
from scheduler.state.said import SaidOnPod
from scheduler.state.seen import SeenOfPod
from scheduler.state.units import Placeholder, Unit, Units

_NEW: Final = frozenset({PodStage.GATED, PodStage.WAITING})


class Newcomers:
    """Finds the unit of a pod, or makes it from what the pod says."""

    def __init__(
        self,
        caches: Caches,
        *,
        units: Units,
        census: Census,
        successors: Successors,
        clock: Callable[[], float],
    ) -> None:
        self._pods = caches.pods
        self._rulebook = caches.rulebook
        self._units = units
        self._census = census
        self._successors = successors
        self._clock = clock

    def unit(self, key: str) -> Unit | None:
        """The unit with this key. If it is not known yet, it is made from its pod. None if there is
        no pod.
        """
        unit = self._units.get(key)
        pod = self._pods.get(key)
        if unit is not None or pod is None:
            return unit
        meta = pod.metadata
        if not self._rulebook.knows(meta.namespace):
            return None  # the watch of Namespaces wakes this key again
        job_id, runs = recorded_job(pod), bool(pod.spec.node_name) and not pod.finished
        said = SaidOnPod(condition=_last_condition(pod), recorded=job_id)
        unit = Unit(
            key,
            meta.namespace,
            meta.name,
            seen_at=self._clock(),
            job=None if job_id is None else Placeholder(job_id, claimed=True),
            pods=(Member(key, meta.name, SeenOfPod(runs=runs), said),),
        )
        if stage_of(pod, bound=False) in _NEW:
            unit.seen.forerunner = self._successors.take(pod)
        found = pod.finished or self._census.covers(meta.creation_timestamp, runs=runs)
        if job_id is None and not found:
            unit.suspect_unrecorded_job(BEFORE_US)
        return self._units.add(unit)


def _last_condition(pod: Pod) -> tuple[str, str]:
    """What a former process wrote last, so that it is not written again."""
    scheduled = pod.condition("PodScheduled")
    return ("", "") if scheduled is None else (scheduled.reason, scheduled.message)
