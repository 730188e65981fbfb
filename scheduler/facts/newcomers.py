"""Makes the units of pods that are new to this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scheduler.core.facts import PodStage
from scheduler.facts.caches import Caches
from scheduler.facts.claims import BEFORE_US, recorded_job, said_on
from scheduler.facts.stage import stage_of
from scheduler.facts.successors import Successors
from scheduler.facts.whereabouts import oldest
from scheduler.kube.wire import Pod
from scheduler.slurm.census import Census
from scheduler.state.gang import Gang
from scheduler.state.gangs import MOST_WITH_ENDED, Gangs
from scheduler.state.member import Member, by_uid
from scheduler.state.seen import SeenOfPod
from scheduler.state.units import Placeholder, Unit, Units

_NEW: Final = frozenset({PodStage.GATED, PodStage.WAITING})
MOST_CLAIMS: Final = MOST_WITH_ENDED
"""How many units may claim one job. More than one is right only if a group of pods is no gang any
more: then each of its pods has the group's job. A change of the job concerns all of them in one
turn of the event loop (10 000 took 130 ms). Further claims count as missing annotations.
"""


class Newcomers:
    """Finds the unit of a key, or makes it from what its pods say."""

    def __init__(
        self,
        caches: Caches,
        *,
        units: Units,
        gangs: Gangs,
        census: Census,
        successors: Successors,
        clock: Callable[[], float],
    ) -> None:
        self._pods = caches.pods
        self._rulebook = caches.rulebook
        self._units = units
        self._gangs = gangs
        self._census = census
        self._successors = successors
        self._clock = clock

    def unit(self, key: str) -> Unit | None:
        """The unit with this key. If it is not known yet, it is made from its pod, or from the pods
        of its gang. None if there is no pod.
        """
        unit = self._units.get(key)
        if unit is not None:
            if unit.gang is not None or self._come_again(unit):
                self._join(unit)
            return unit
        pods = self._new_pods(key)
        if not pods or not self._rulebook.knows(pods[0].metadata.namespace):
            return None  # the watch of Namespaces wakes this key again
        return self._units.add(self._made(key, pods))

    def names(self, key: str) -> dict[str, str]:
        """The namespace and the name of the unit with this key, or of the pod that has none yet;
        empty if there is neither. A gang has a name of its own.
        """
        unit = self._units.get(key)
        if unit is not None:
            return {"namespace": unit.namespace, "pod": unit.name}
        pod = self._pods.get(key)
        return (
            {} if pod is None else {"namespace": pod.metadata.namespace, "pod": pod.metadata.name}
        )

    def _new_pods(self, key: str) -> list[Pod]:
        """The pods of a unit that does not exist yet."""
        pod = self._pods.get(key)
        if pod is not None:
            # What the policy says may have become known since the key was added. If the pod belongs
            # to a gang by that, whoever tells all pods of it wakes the gang's key.
            self._gangs.settle(pod)
            return [pod] if self._gangs.of(key) is None else []
        return [pod for uid in self._gangs.pods(key) if (pod := self._free(uid)) is not None]

    def _free(self, uid: str) -> Pod | None:
        """The pod, unless it belongs to a unit."""
        return None if self._units.of_pod(uid) is not None else self._pods.get(uid)

    def _made(self, key: str, pods: list[Pod]) -> Unit:
        first = pods[0].metadata
        member = self._gangs.of(first.uid)
        unit = Unit(
            key,
            first.namespace,
            first.name if member is None else member.name,
            seen_at=self._clock(),
            job=self._claimed(pods),
            gang=None if member is None else Gang(member),
            members=by_uid(map(self._member, pods)),
            beside_gang=self._gangs.is_beside(key),
        )
        if member is None and stage_of(pods[0], bound=False) in _NEW:
            unit.seen.forerunner = self._successors.take(pods[0])
        runs = unit.came_running
        found = all(pod.finished for pod in pods) or self._census.covers(oldest(pods), runs=runs)
        if unit.job is None and not found:
            unit.suspect_unrecorded_job(BEFORE_US)
        return unit

    def _come_again(self, unit: Unit) -> bool:
        """Whether there are pods for a unit that was made for a job without any."""
        return all(it.seen.orphaned for it in unit.pods) and bool(self._gangs.pods(unit.key))

    def _join(self, unit: Unit) -> None:
        """Add the pods of a gang that have come since. Some may be known from the job's tag."""
        for known in unit.members.values():
            known.membership = known.membership or self._gangs.of(known.uid)
        for uid in set(self._gangs.pods(unit.key)) - unit.uids:
            self.join(unit, uid)

    def join(self, unit: Unit, uid: str) -> None:
        """Add a pod to its gang, unless it belongs to another unit."""
        pod, member = self._free(uid), self._gangs.of(uid)
        if pod is not None and member is not None:
            self._units.join(unit, self._member(pod), member)

    def _member(self, pod: Pod) -> Member:
        meta = pod.metadata
        return Member(
            meta.uid,
            meta.name,
            SeenOfPod(runs=bool(pod.spec.node_name) and not pod.finished),
            said_on(pod),
            self._gangs.of(meta.uid),
        )

    def _claimed(self, pods: Iterable[Pod]) -> Placeholder | None:
        """The job that the pods name. If the pods of a gang name several, the one with the highest
        id that an unfinished pod names, or else the highest of all: the others are from earlier
        runs of the gang.
        """
        found = ((not it.finished, job_id) for it in pods if (job_id := recorded_job(it)))
        _, job_id = max(found, default=(False, 0))
        if not job_id or len(self._units.by_job(job_id)) >= MOST_CLAIMS:
            return None
        return Placeholder(job_id, claimed=True)
