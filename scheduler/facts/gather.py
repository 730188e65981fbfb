"""Collects the facts of one unit from the caches, for `decide`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from annotations import (
    JobRequest,
    Problem,
)
from scheduler.core.binding_proof import proves_binding
from scheduler.core.facts import PodFacts, PodStage, UnitFacts
from scheduler.core.in_the_way import InWay
from scheduler.core.naming import ENDS_AT, NODES, Owner
from scheduler.core.node_suitability import Place, Wishes
from scheduler.core.tagged import TaggedJob
from scheduler.core.tenure import Tenure, learnt
from scheduler.facts.caches import Caches
from scheduler.facts.claims import BEFORE_US, recorded_job, weigh
from scheduler.facts.pod_endings import Partings
from scheduler.facts.reader import NOTHING, RequestReader
from scheduler.facts.successors import Successors
from scheduler.facts.whereabouts import Whereabouts, oldest
from scheduler.kube.wire import Pod
from scheduler.nodes.candidates import UNKNOWN, Survey
from scheduler.nodes.coverage import Coverage
from scheduler.slurm.census import Census
from scheduler.slurm.slurmctld import LEAST_JOB_AGE, Slurmctld
from scheduler.state.lingering import remains_by
from scheduler.state.member import Member
from scheduler.state.said import SaidOnPod
from scheduler.state.seen import SeenOfPod
from scheduler.state.units import Placeholder, Unit, Units

_NO_WISHES = Wishes()
_NEW = frozenset({PodStage.GATED, PodStage.WAITING})


class Look:
    """Reads the caches and the memory of units, and returns the present facts."""

    def __init__(
        self,
        caches: Caches,
        *,
        reader: RequestReader,
        units: Units,
        owner: Owner,
        clock: Callable[[], float],
        census: Census,
        slurmctld: Slurmctld,
        coverage: Coverage,
        successors: Successors,
        partings: Partings,
        whereabouts: Whereabouts,
        evict_suspended: bool,
    ) -> None:
        self._pods = caches.pods
        self._nodes = caches.nodes
        self._surroundings = caches.surroundings
        self._rulebook = caches.rulebook
        self._reader = reader
        self._units = units
        self._owner = owner
        self._clock = clock
        self._census = census
        self._slurmctld = slurmctld
        self._coverage = coverage
        self._successors = successors
        self._partings = partings
        self._whereabouts = whereabouts
        self._evict_suspended = evict_suspended

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
            unit.doubt(BEFORE_US)
        return self._units.add(unit)

    def facts(self, unit: Unit) -> UnitFacts:
        """Everything that is known of the unit now."""
        pods = self._whereabouts.pods(unit)
        self._follow(unit, pods)
        pod = pods[0] if pods else None  # the unit's request is read from its first pod
        created = oldest(pods)
        covered = self._census.covers(created, runs=unit.came_running)
        weigh(unit, self._units, owner=self._owner, covered=covered)
        reading = NOTHING if pod is None else self._reader.read(pod, unit)
        request = reading.request
        refusals, forerunner = unit.refusals, unit.seen.forerunner
        corrected = refusals.submit.request not in {None, request}
        read = None if reading.bulky else pod
        uncompared = self._uncompared(unit, read)
        survey = UNKNOWN if read is None or read.spec.node_name else self._surroundings.survey(read)
        # A pod that is refused will not be bound, so we do not check whether it would fit.
        places = self._places(unit, read, compared=uncompared is None)
        edit_refused = refusals.update.request is not None and refusals.update.request == request
        return UnitFacts(
            uids=unit.uids,
            owner=self._owner,
            pods=tuple(self._pod(it, unit) for it in pods),
            request=request,
            refused=reading.refused,
            accepted=self._accepted(unit) if reading.refused else {},
            job=unit.job_facts(
                looked_through=self._census.completed_at is not None,
                since=self._units.believed_since(self._clock()),
            ),
            nodes=places,
            in_way=self._in_way(unit, pod, places),
            submit_at=0.0 if corrected else refusals.submit.until,
            held_until=0.0 if forerunner is None else forerunner.until,
            held_why="" if forerunner is None else forerunner.message,
            update_at=refusals.update.until if edit_refused else 0.0,
            readmit_at=refusals.readmit.until,
            readmit_refused=refusals.readmit.request or "",
            untaken=refusals.update.why if edit_refused else "",
            unfit_since=unit.bindings.unfit_since,
            unlisted=self._nodes.unlisted,
            uncompared_since=uncompared,
            excluded=self._excluded(unit, survey),
            nowhere="" if unit.job is not None else survey.nowhere,
            refused_bind=refusals.bind,
            bound_by_us=self._bound_by_us(pods, unit),
            unrecorded=self._unrecorded(unit),
            unjudged=not self._rulebook.knows(unit.namespace),
            remarks=reading.remarks,
            outcome=unit.outcome or ("pod gone" if pod is None else ""),
            epoch=time.time(),
            evict_suspended=self._evict_suspended,
            tenure=self._tenure(unit, pod, request),
            lingers_until=self._lingers_until(unit) if pod is None else 0.0,
            longest_grace=self._reader.longest_grace,
        )

    def _follow(self, unit: Unit, pods: Sequence[Pod]) -> None:
        """Note how the pods end, and forget the readings of those that are gone."""
        for pod in pods:
            self._partings.saw(pod)
        for uid in unit.uids.difference(it.metadata.uid for it in pods):
            self._reader.forget(uid)

    def _in_way(self, unit: Unit, pod: Pod | None, places: Mapping[str, Place]) -> InWay | None:
        """What prevents a bind of a waiting pod. For a pod on a Node, note its coverage instead."""
        if pod is None:
            return None
        if pod.spec.node_name or unit.bindings.nodes:
            self._coverage.saw(unit)
            return None
        return self._coverage.in_way(unit, [it.target for it in places.values() if it.target])

    def _unrecorded(self, unit: Unit) -> bool:
        """Whether the job's id must still be written on the pod. If the API server has just refused
        that, the answer is no: the Binding will write it, and until then a census finds the job.
        """
        if unit.job is None or self._clock() < unit.refusals.write.until:
            return False
        return any(pod.said.recorded != unit.job.job_id for pod in unit.pods)

    def _tenure(
        self, unit: Unit, pod: Pod | None, request: JobRequest | tuple[Problem, ...]
    ) -> Tenure:
        if pod is None or not pod.spec.node_name:
            return unit.seen.tenure
        job = unit.job
        if job is not None and job.record is not None and self._owned(unit, job.record):
            now, epoch = self._clock(), time.time()
            unit.seen.tenure = learnt(unit.seen.tenure, job.record, now=now, epoch=epoch)
        until = unit.seen.tenure.until
        if until is None and isinstance(request, JobRequest):
            until = _by_kubelet(pod, request)
        young = job is not None and job.lost_within(self._slurmctld.min_job_age or LEAST_JOB_AGE)
        return replace(unit.seen.tenure, until=until, lost_young=young)

    def _lingers_until(self, unit: Unit) -> float:
        """Until when containers of the unit's pods that are gone may still run."""
        return max(self._leaves_remains_until(unit, pod) for pod in unit.pods)

    def _leaves_remains_until(self, unit: Unit, pod: Member) -> float:
        remains = pod.seen.remains
        if remains is None and unit.seen.orphaned and unit.job is not None and unit.job.record:
            remains = remains_by(unit.job.record, kube_node=self._nodes.kube_node)
        if remains is None:
            return 0.0
        if remains.gone_at is None:
            remains = pod.seen.remains = replace(remains, gone_at=self._clock())
        return 0.0 if self._nodes.is_dead(remains.node) else remains.until

    def pod(self, uid: str) -> Pod | None:
        """The pod with this uid, as last seen."""
        return self._pods.get(uid)

    def claim(self, uid: str, target: str) -> bool:
        """Whether the pod still fits on this Node. If it does, its place is reserved."""
        pod = self._pods.get(uid)
        return pod is None or self._surroundings.claim(pod, target)

    def _uncompared(self, unit: Unit, pod: Pod | None) -> float | None:
        if pod is None or pod.spec.node_name:
            return None
        return self._surroundings.waits_since(pod, holds_nodes=bool(_nodes_of_job(unit)))

    def _places(self, unit: Unit, pod: Pod | None, *, compared: bool) -> dict[str, Place]:
        places = {node: self._place(node, pod, compared=compared) for node in _nodes_of_job(unit)}
        return {node: place for node, place in places.items() if place is not None}

    def _place(self, node: str, pod: Pod | None, *, compared: bool) -> Place | None:
        """The Node behind this Slurm node, checked against the pod's own requirements and, once
        they have been compared, against the pods that are there.
        """
        place = self._nodes.place(node, _NO_WISHES if pod is None else pod.spec.wishes)
        if place is None or place.unfit is not None or pod is None or pod.spec.node_name:
            return place
        if not compared:
            return place
        return replace(place, unfit=self._surroundings.unfit(pod, place.target))

    def _excluded(self, unit: Unit, survey: Survey) -> Mapping[str, str]:
        learnt = unit.asked.exclusions.active(self._clock())
        return {**survey.ruled_out, **learnt} if learnt else survey.ruled_out

    def _accepted(self, unit: Unit) -> Mapping[str, str]:
        record = None if unit.job is None else unit.job.record
        if record is None or not self._owned(unit, record):
            return {}
        return {} if record.tag is None else record.tag.asked

    def _pod(self, pod: Pod, unit: Unit) -> PodFacts:
        meta, ends_at = pod.metadata, unit.pod(pod.metadata.uid).said.ends_at
        return PodFacts(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            stage=stage_of(pod, bound=bool(unit.bindings.nodes.get(meta.uid))),
            node=self._whereabouts.node(pod, unit),
            placed_by_us=_placed_by_us(pod, unit),
            grace_seconds=pod.spec.termination_grace_period_seconds,
            ends_at=meta.annotations.get(ENDS_AT, "") if ends_at is None else ends_at,
            deletion_grace_seconds=(
                None if meta.deletion_timestamp is None else meta.deletion_grace_period_seconds
            ),
        )

    def _bound_by_us(self, pods: Sequence[Pod], unit: Unit) -> bool:
        record = None if unit.job is None else unit.job.record
        if record is None:
            return unit.bound_by_us
        for pod in pods:
            uid = pod.metadata.uid
            seen = unit.pod(uid).seen
            if not seen.bound_by_us:
                node = self._whereabouts.node(pod, unit)
                seen.bound_by_us = proves_binding(record, uid, owner=self._owner, node=node)
        return unit.bound_by_us

    def _owned(self, unit: Unit, record: TaggedJob) -> bool:
        return unit.owns(record, owner=self._owner)


def _nodes_of_job(unit: Unit) -> tuple[str, ...]:
    """The nodes that the unit's job holds."""
    record = None if unit.job is None else unit.job.record
    return () if record is None else record.nodes


def _by_kubelet(pod: Pod, request: JobRequest) -> float | None:
    """The end of the pod's time, in Unix seconds, for a pod none of whose jobs is known: its start
    by the kubelet, plus the time limit of its request.
    """
    began = pod.status.start_time
    if began is None or request.time_limit_minutes is None:
        return None
    return began.timestamp() + 60.0 * request.time_limit_minutes


def stage_of(pod: Pod, *, bound: bool) -> PodStage:
    """The pod's stage. `bound` says that a binding was made that the watch may not show yet."""
    if pod.finished:
        return PodStage.FINISHED
    going = pod.metadata.deletion_timestamp is not None
    if pod.spec.node_name or bound:
        return PodStage.DEPARTING if going else PodStage.BOUND
    if going:
        return PodStage.WITHDRAWN
    return PodStage.GATED if pod.spec.scheduling_gates else PodStage.WAITING


def _last_condition(pod: Pod) -> tuple[str, str]:
    """What a former process wrote last, so that it is not written again."""
    scheduled = pod.condition("PodScheduled")
    return ("", "") if scheduled is None else (scheduled.reason, scheduled.message)


def _placed_by_us(pod: Pod, unit: Unit) -> bool:
    return (
        pod.metadata.uid in unit.bindings.nodes
        or unit.job is not None
        or recorded_job(pod) is not None
        or NODES in pod.metadata.annotations
    )
