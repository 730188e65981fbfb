"""Collects the facts of one unit from the caches, for `decide`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from annotations import JobRequest, Problem
from groundwork.long_turns import LongTurns
from groundwork.pauses import in_slices
from scheduler.core.binding_proof import proves_binding
from scheduler.core.facts import MissingPod, PodFacts, PodStage, UnitFacts
from scheduler.core.naming import ENDS_AT, JOB_NODES
from scheduler.core.owner_tag import Owner
from scheduler.core.shapes import MOST_SHAPES, Size, accepted_by
from scheduler.core.tagged import TaggedJob
from scheduler.facts.caches import Caches
from scheduler.facts.claims import recorded_job
from scheduler.facts.finality import is_final
from scheduler.facts.gang_facts import GangReader
from scheduler.facts.placing import Places
from scheduler.facts.pod_endings import Partings
from scheduler.facts.read_ahead import ReadAhead, Reads
from scheduler.facts.reader import RequestReader
from scheduler.facts.stage import stage_of
from scheduler.facts.tenures import Tenures
from scheduler.facts.unit_jobs import UnitJobs
from scheduler.facts.whereabouts import Whereabouts
from scheduler.kube.wire import Pod
from scheduler.state.units import Unit
from slurmapi import BaseState

LARGE_GANG: Final = 32
"""To gather the facts of a gang with fewer pods takes 1 ms at most, of its largest pods. So all
workers together may do so in one turn of the event loop.
"""


class Gatherer:
    """Reads the caches and the memory of units, and returns the present facts."""

    def __init__(
        self,
        caches: Caches,
        *,
        reader: RequestReader,
        gangs: GangReader,
        places: Places,
        tenures: Tenures,
        jobs: UnitJobs,
        owner: Owner,
        partings: Partings,
        whereabouts: Whereabouts,
        evict_suspended: bool,
    ) -> None:
        self._pods = caches.pods
        self._nodes = caches.nodes
        self._rulebook = caches.rulebook
        self._reader = reader
        self._gangs = gangs
        self._places = places
        self._tenures = tenures
        self._jobs = jobs
        self._owner = owner
        self._partings = partings
        self._whereabouts = whereabouts
        self._evict_suspended = evict_suspended
        self._turns = LongTurns()

    async def read_ahead(self, unit: Unit) -> ReadAhead | None:
        """Read the pods of a large gang in steps, for `facts`; None for any other unit. With two
        long lists of nodes each, a thousand pods take seconds. Call `facts` before the next
        `await`: it is the last step, and so this process gathers the facts of one large gang at a
        time.
        """
        if len(unit.members) < LARGE_GANG:
            return None
        ahead = ReadAhead(self._reader, unit)
        pause = partial(self._turns.next, unit.namespace)
        await pause()
        async for pod in in_slices(self._whereabouts.pods(unit), pause=pause):
            ahead.add(pod)
        await pause()
        return ahead.checked()

    def facts(self, unit: Unit, ahead: ReadAhead | None = None) -> UnitFacts:
        """Everything that is known of the unit now. `ahead` has what its pods ask for."""
        reads: Reads = self._reader if ahead is None else ahead
        all_pods = self._whereabouts.pods(unit)
        stages = _stages(unit, all_pods)
        self._follow(unit, all_pods)
        self._jobs.weigh(unit, all_pods)
        self._gangs.settle_size(unit, stages)
        alone = unit.gang is None and len(unit.members) == 1
        ranks = {} if alone else self._gangs.ranks(unit, all_pods, stages)
        pods = all_pods
        spare: tuple[Pod, ...] = ()
        if unit.gang is not None:
            pods, spare = self._parted(unit, all_pods, stages, ranks)
            self._gangs.follow(unit.gang, [stages[it.metadata.uid] for it in pods])
        pod = pods[0] if pods else None
        reading, culprit = self._gangs.read(unit, pods, stages, ranks, reads)
        request = reading.request
        sizes = {} if unit.gang is None else _sizes(unit, pods, reads)
        refusals, forerunner = unit.refusals, unit.seen.forerunner
        corrected = refusals.submit.request not in {None, request}
        # A pod that is refused will not be bound, so we do not check whether it would fit.
        to_place = _to_place(pods, stages) if len(pods) > 1 else pod
        by_kind = _by_kind(pods, stages, ranks, sizes) if sizes else {}
        placing = self._places.of(unit, None if reading.bulky else to_place, by_kind)
        edit_refused = refusals.update.request is not None and refusals.update.request == request
        tenure = self._tenures.of(unit, pod, request)
        return UnitFacts(
            key=unit.key,
            owner=self._owner,
            pods=tuple([self._pod(it, unit, ranks, stages, sizes) for it in pods]),
            spare=tuple([self._pod(it, unit, ranks, stages, {}) for it in spare]) if spare else (),
            missing=(*self._missing(unit, all_pods, ranks), *self._gone_over(unit)),
            request=request,
            gang=None if unit.gang is None else self._gangs.facts(unit.gang, request, culprit),
            refused=reading.refused,
            accepted=self._accepted(unit, request) if reading.refused else {},
            uses={} if isinstance(request, JobRequest) else _uses(unit, pods, reads),
            job=self._jobs.facts(unit),
            nodes=placing.nodes,
            in_way=self._places.in_way(unit, pods, placing.nodes),
            submit_at=0.0 if corrected else refusals.submit.until,
            held_until=0.0 if forerunner is None else forerunner.until,
            held_why="" if forerunner is None else forerunner.message,
            update_at=refusals.update.until if edit_refused else 0.0,
            give_back_at=refusals.give_back.until,
            readmit_at=refusals.readmit.until,
            readmit_refused=refusals.readmit.request or "",
            untaken=refusals.update.why if edit_refused else "",
            unfit_since=unit.bindings.unfit_since,
            unlisted=self._nodes.unlisted,
            uncompared_since=placing.uncompared_since,
            excluded=placing.excluded,
            excluded_for=placing.excluded_for,
            nowhere=placing.nowhere,
            refused_bind=refusals.bind,
            bound_by_us=self._bound_by_us(pods, unit),
            unrecorded=self._jobs.unrecorded(unit),
            tell_at=self._jobs.tell_at(unit),
            unjudged=not self._rulebook.knows(unit.namespace),
            remarks=reading.remarks,
            outcome=unit.outcome or ("pod gone" if pod is None else ""),
            epoch=self._tenures.epoch(tenure),
            evict_suspended=self._evict_suspended,
            tenure=tenure,
            longest_grace=(
                self._reader.longest_grace if PodStage.DEPARTING in stages.values() else None
            ),
        )

    def _follow(self, unit: Unit, pods: Sequence[Pod]) -> None:
        """Note how the pods end, and forget the readings of those that are gone."""
        for pod in pods:
            self._partings.saw(pod)
        if len(pods) < len(unit.members):
            for uid in unit.uids - {it.metadata.uid for it in pods}:
                self._reader.forget(uid)

    def _parted(
        self,
        unit: Unit,
        pods: tuple[Pod, ...],
        stages: Mapping[str, PodStage],
        ranks: Mapping[str, int],
    ) -> tuple[tuple[Pod, ...], tuple[Pod, ...]]:
        """The pods that the unit's job is for, and those that its gang can do without."""
        spare = self._gangs.spare(unit, stages, ranks)
        if spare != unit.spare:
            unit.set_apart(spare)
        if not spare:
            return pods, ()
        return (
            tuple(it for it in pods if it.metadata.uid not in spare),
            tuple(it for it in pods if it.metadata.uid in spare),
        )

    def _missing(
        self, unit: Unit, pods: Sequence[Pod], ranks: Mapping[str, int]
    ) -> tuple[MissingPod, ...]:
        if len(pods) == len(unit.members):
            return ()
        shown = {it.metadata.uid for it in pods}
        return tuple(
            MissingPod(
                uid=it.uid,
                name=it.name,
                rank=ranks.get(it.uid, 0),
                lingers_until=self._tenures.lingers_until(unit, it),
                placed=it.seen.placed or it.uid in unit.bindings.nodes,
            )
            for it in unit.pods
            if it.uid not in shown
        )

    def _gone_over(self, unit: Unit) -> Iterator[MissingPod]:
        """Pods that run in slots of a gang's job and belong to another unit now."""
        record = None if unit.gang is None or unit.job is None else unit.job.record
        tag = None if record is None else record.tag
        if record is None or tag is None or not unit.owns(record, owner=self._owner):
            return
        for uid, name, rank in zip(tag.uids, tag.names, tag.ranks, strict=False):
            if uid and uid not in unit.members and self._whereabouts.runs(uid):
                yield MissingPod(uid=uid, name=name, rank=rank, lingers_until=math.inf, placed=True)

    def _accepted(self, unit: Unit, request: JobRequest | tuple[Problem, ...]) -> Mapping[str, str]:
        record = None if unit.job is None else unit.job.record
        if record is None or not unit.owns(record, owner=self._owner) or record.tag is None:
            return {}
        return accepted_by(record.tag, request)

    def _pod(
        self,
        pod: Pod,
        unit: Unit,
        ranks: Mapping[str, int],
        stages: Mapping[str, PodStage],
        sizes: Mapping[str, Size],
    ) -> PodFacts:
        meta, member = pod.metadata, unit.pod(pod.metadata.uid)
        ends_at = member.said.ends_at
        return PodFacts(
            uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            stage=stages[meta.uid],
            node=self._whereabouts.node(pod, unit),
            said_node=meta.annotations.get(JOB_NODES, ""),
            rank=ranks.get(meta.uid, 0),
            size=sizes.get(meta.uid),
            unserved=unit.gang is not None and meta.uid not in sizes,
            started=pod.status.phase == "Running",
            succeeded=pod.status.phase == "Succeeded",
            final=unit.gang is not None and is_final(pod),
            placed_by_us=_placed_by_us(pod, unit),
            grace_seconds=pod.spec.termination_grace_period_seconds,
            ends_at=meta.annotations.get(ENDS_AT, "") if ends_at is None else ends_at,
            deletion_grace_seconds=(
                None if meta.deletion_timestamp is None else meta.deletion_grace_period_seconds
            ),
        )

    def _bound_by_us(self, pods: Sequence[Pod], unit: Unit) -> bool:
        record = None if unit.job is None else unit.job.record
        if unit.job is None or record is None:
            return unit.bound_by_us
        for pod in pods:
            uid = pod.metadata.uid
            seen = unit.pod(uid).seen
            if not seen.bound_by_us:
                node = self._whereabouts.node(pod, unit)
                seen.bound_by_us = proves_binding(record, uid, owner=self._owner, node=node)
        if record.state.base is BaseState.RUNNING and not unit.job.has_held:
            seated, nodes = record.seated(owner=self._owner), frozenset(record.nodes)
            for pod in pods:
                if not pod.spec.node_name or pod.metadata.uid not in seated:
                    continue
                if self._whereabouts.node(pod, unit) in nodes or _came_later(pod, record):
                    unit.job.holds()
                    break
        return unit.bound_by_us


def _sizes(unit: Unit, pods: Sequence[Pod], reads: Reads) -> dict[str, Size]:
    """What each pod of a gang takes of a node, by uid, as far as it can be read."""
    found = ((it.metadata.uid, reads.read(it, unit).request) for it in pods)
    return {uid: Size.of(it) for uid, it in found if isinstance(it, JobRequest)}


def _uses(unit: Unit, pods: Sequence[Pod], reads: Reads) -> dict[str, JobRequest]:
    """What each pod on a Node uses there, by uid, as far as that can be read."""
    found = ((it.metadata.uid, reads.read_use(it, unit)) for it in pods if it.spec.node_name)
    return {uid: use for uid, use in found if use is not None}


def _stages(unit: Unit, pods: Sequence[Pod]) -> dict[str, PodStage]:
    """The stage of each pod, by uid."""
    bound = unit.bindings.nodes
    return {it.metadata.uid: stage_of(it, bound=it.metadata.uid in bound) for it in pods}


def _to_place(pods: Sequence[Pod], stages: Mapping[str, PodStage]) -> Pod:
    """The pod for which Nodes are checked: the first that waits, or else the first of all. The pods
    of a unit are alike.
    """
    unbound = {PodStage.WAITING, PodStage.GATED}
    waiting = (it for it in pods if stages[it.metadata.uid] in unbound)
    return next(waiting, pods[0])


def _by_kind(
    pods: Sequence[Pod],
    stages: Mapping[str, PodStage],
    ranks: Mapping[str, int],
    sizes: Mapping[str, Size],
) -> dict[str, Pod]:
    """The first pod of each kind that waits, if a gang has several shapes. A gang that has too many
    is refused, so nothing is compared for it.
    """
    if not 2 <= len(set(sizes.values())) <= MOST_SHAPES:
        return {}
    found: dict[str, Pod] = {}
    for pod in sorted(pods, key=lambda it: ranks.get(it.metadata.uid, 0)):
        size = sizes.get(pod.metadata.uid)
        if size is not None and stages[pod.metadata.uid] is PodStage.WAITING:
            found.setdefault(size.kind, pod)
    return found


def _came_later(pod: Pod, record: TaggedJob) -> bool:
    """Whether the pod came to its Node after the present run of its job had begun, by the clocks of
    its kubelet and of slurmctld: then it came in this run. A process that has just started cannot
    know it otherwise if its Nodes count as other Slurm nodes than before.
    """
    began = pod.status.start_time
    return began is not None and 0 < (record.start_time or 0) <= began.timestamp()


def _placed_by_us(pod: Pod, unit: Unit) -> bool:
    return (
        pod.metadata.uid in unit.bindings.nodes
        or unit.job is not None
        or recorded_job(pod) is not None
        or JOB_NODES in pod.metadata.annotations
    )
