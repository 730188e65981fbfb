"""Collects what is known of a gang, and what its pods ask for together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from annotations import JobRequest, LostSlot, Problem
from scheduler.core.edits import called
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import RUNS, GangFacts, PodStage, Remark
from scheduler.core.gang_patience import untold_until
from scheduler.core.gang_ranks import Ranked, RankHold, beyond, open_ranks, ranks_of
from scheduler.core.gang_shape import rank_of
from scheduler.core.gang_sources import MOST_GANG_PODS, Outsider
from scheduler.core.owner_tag import Owner, OwnerTag
from scheduler.core.shapes import MOST_SHAPES, Size, unexpected, with_expected
from scheduler.facts.read_ahead import Reads
from scheduler.facts.reader import NOTHING, Reading
from scheduler.kube.clip import clipped
from scheduler.kube.wire import Pod
from scheduler.state.gang import Gang
from scheduler.state.gangs import Gangs
from scheduler.state.member import Member
from scheduler.state.units import Unit

_MOST_NAMED: Final = 3
_NO_KILL: Final = (
    "The pods of the gang have several sizes, and then the annotation no-kill helps only if a node "
    "of those like rank 0 fails: if another node fails, Slurm ends the job"
)
_UNBOUND: Final = frozenset({PodStage.WAITING, PodStage.GATED})
_CAN_RUN: Final = RUNS | _UNBOUND
_HOLDS: Final[Mapping[PodStage, RankHold]] = {
    PodStage.BOUND: RankHold.RUNS,
    PodStage.DEPARTING: RankHold.LEAVES,
    PodStage.WAITING: RankHold.WAITS,
    PodStage.GATED: RankHold.GATED,
}


class GangReader:
    """`per_node` and `on_lost_slot` apply if the pods do not say otherwise: how many pods of a gang
    a node gets, and what is done if a pod cannot come back to its slot. `linger_seconds` is how
    long an allocation without a pod is kept.
    """

    def __init__(
        self,
        gangs: Gangs,
        *,
        owner: Owner,
        per_node: int,
        linger_seconds: float,
        on_lost_slot: LostSlot,
        clock: Callable[[], float],
    ) -> None:
        self._gangs = gangs
        self._owner = owner
        self._per_node = per_node
        self._linger_seconds = linger_seconds
        self._on_lost_slot = on_lost_slot
        self._clock = clock

    def ranks(
        self, unit: Unit, pods: Sequence[Pod], stages: Mapping[str, PodStage]
    ) -> dict[str, int]:
        """The rank of each of the unit's pods by uid, those that are gone included."""
        standings = {it.metadata.uid: _hold(it, stages) for it in pods}
        ranked = [
            Ranked(
                uid=it.uid,
                name=it.name,
                own=_own_rank(it, unit.gang),
                standing=standings[it.uid] if it.uid in standings else _of_one_unseen(it),
            )
            for it in unit.members.values()
        ]
        tag, size = self._tag(unit), _open_size(unit)
        return ranks_of(ranked, tag) if size is None else open_ranks(ranked, tag, size=size)

    def spare(
        self, unit: Unit, stages: Mapping[str, PodStage], ranks: Mapping[str, int]
    ) -> frozenset[str]:
        """The uids of the pods that wait and have no part in the gang, which has enough others."""
        size = _open_size(unit)
        if size is None:
            return frozenset()
        outside = beyond(ranks.values(), self._tag(unit), size=size)
        return frozenset(
            uid for uid, stage in stages.items() if stage in _UNBOUND and ranks[uid] in outside
        )

    def _tag(self, unit: Unit) -> OwnerTag | None:
        """The owner tag of the unit's job, as last seen."""
        record = None if unit.job is None else unit.job.record
        owned = record is not None and unit.owns(record, owner=self._owner)
        return record.tag if owned and record is not None else None

    def read(
        self,
        unit: Unit,
        pods: Sequence[Pod],
        stages: Mapping[str, PodStage],
        ranks: Mapping[str, int],
        reads: Reads,
    ) -> tuple[Reading, str]:
        """What the unit asks for, read by `reads`. If that is a list of problems, also the name of
        the pod that is at fault. The waiting pods of a gang must ask for the same, except for their
        sizes and `gang_lost_slot`. The size is that of the lowest rank.
        """
        if not pods:
            return NOTHING, ""
        if unit.gang is None:
            return self._alone(pods[0], reads.read(pods[0], unit)), ""
        ordered = sorted(pods, key=lambda it: ranks.get(it.metadata.uid, 0))
        waiting = [it for it in ordered if stages[it.metadata.uid] is PodStage.WAITING]
        first, *others = waiting or ordered[:1]
        reading = reads.read(first, unit)
        if not waiting:
            return reading, ""
        if (problem := _gang_problem(unit.gang)) is not None:
            return replace(reading, request=(problem,)), ""
        if not isinstance(reading.request, JobRequest):
            return reading, first.metadata.name
        one, one_says = Size.of(reading.request), reading.request.gang_lost_slot
        said = {one_says}
        sizes = {ranks.get(first.metadata.uid, 0): one}
        for pod in others:
            other = reads.read(pod, unit)
            if not isinstance(other.request, JobRequest):
                return other, pod.metadata.name
            said.add(other.request.gang_lost_slot)
            if one.applied(_with_lost_slot(other.request, one_says)) != reading.request:
                differs = _differs(first, reading.request, other.request)
                return replace(other, request=(differs,)), pod.metadata.name
            sizes[ranks.get(pod.metadata.uid, 0)] = Size.of(other.request)
        agreed = _with_lost_slot(reading.request, _agreed(said))
        reading = reading if agreed is reading.request else replace(reading, request=agreed)
        expected = with_expected(sizes, unit.gang.templates)
        reading = _with_unknown(reading, unexpected(sizes, unit.gang.templates))
        return _of_shapes(reading, len(set(expected.values()))), ""

    def _alone(self, pod: Pod, reading: Reading) -> Reading:
        """What a pod that is served alone asks for, with what is wrong about its gang."""
        flaw = self._gangs.flaws.get(pod.metadata.uid)
        if flaw is None or pod.spec.node_name:
            return reading
        if isinstance(flaw, Outsider):
            remark = Remark(Reason.NOT_IN_GANG, flaw.why)
            return replace(reading, remarks=(*reading.remarks, remark))
        known = () if isinstance(reading.request, JobRequest) else reading.request
        is_known = any((it.field, it.value) == (flaw.field, flaw.value) for it in known)
        return reading if is_known else replace(reading, request=(*known, flaw))

    def facts(self, gang: Gang, request: JobRequest | object, culprit: str) -> GangFacts:
        """What is known of a gang."""
        shape, member = gang.shape, gang.member
        per_node = request.pods_per_node if isinstance(request, JobRequest) else None
        on_lost_slot, lost_slot_by = self._lost_slot(request)
        is_open = shape is not None and shape.open
        return GangFacts(
            name=member.name,
            group=member.group,
            size=(member.size if shape is None else shape.size),
            minimum=(member.size or 0) if shape is None else shape.minimum,
            ranked=(member.rank is not None or member.place is not None) and not is_open,
            over=(shape is not None and shape.over) or self._gangs.is_replaced(member),
            done=frozenset() if shape is None else shape.done,
            disbanded=gang.disbanded,
            is_open=is_open,
            has_object=member.object is not None,
            read_at=gang.read_at,
            per_node=self._per_node if per_node is None else per_node,
            quiet_since=gang.quiet_since,
            linger_seconds=self._linger_seconds,
            on_lost_slot=on_lost_slot,
            lost_slot_by=lost_slot_by,
            culprit=culprit,
            absent_since=gang.absent_since,
            grew_at=gang.grew_at,
            templates=gang.templates,
            untold_until=untold_until(came_at=gang.came_at, grew_at=gang.grew_at),
            said=gang.said,
        )

    def _lost_slot(self, request: JobRequest | object) -> tuple[LostSlot, str]:
        """What is done about a lost slot, and what says so. The request is that of the pods that
        wait, and they are the ones that cannot be bound.
        """
        if not isinstance(request, JobRequest) or request.gang_lost_slot is None:
            return self._on_lost_slot, "--gang-lost-slot"
        return request.gang_lost_slot, called("gang_lost_slot", request)

    def settle_size(self, unit: Unit, stages: Mapping[str, PodStage]) -> None:
        """Take the size that the pods say if none that said the former one can run any more: a
        group that is created anew may have another size.
        """
        gang = unit.gang
        if gang is None:
            return
        said = [it.membership for it in unit.members.values() if stages.get(it.uid) in _CAN_RUN]
        found = [it for it in said if it is not None]
        if found and all(it.size != gang.member.size for it in found):
            gang.go_on_as(found[-1])

    def follow(self, gang: Gang, stages: Sequence[PodStage]) -> None:
        """Note since when none of the gang's pods can run."""
        lives = not _CAN_RUN.isdisjoint(stages)
        gang.follow(lives=lives, pods=len(stages), now=self._clock())


def _with_lost_slot(request: JobRequest, value: LostSlot | None) -> JobRequest:
    return request if request.gang_lost_slot == value else replace(request, gang_lost_slot=value)


def _agreed(said: Collection[LostSlot | None]) -> LostSlot | None:
    """What the pods say together of a lost slot. No pod is ended if they contradict each other. A
    pod that says nothing agrees with the others: whoever wants the gang to be released annotates
    the pod that waits, and the pods that then come again may lack the annotation.
    """
    return "wait" if "wait" in said else "release" if "release" in said else None


def _hold(pod: Pod, stages: Mapping[str, PodStage]) -> RankHold:
    stage = stages[pod.metadata.uid]
    return RankHold.DONE if pod.succeeded else _HOLDS.get(stage, RankHold.GONE)


def _of_one_unseen(pod: Member) -> RankHold:
    """Containers of a pod that no watch shows may still run if it ever had a Node."""
    return RankHold.LEAVES if pod.seen.placed else RankHold.GONE


def _open_size(unit: Unit) -> int | None:
    """How many pods of its group start together, if it may have more; None otherwise."""
    shape = None if unit.gang is None else unit.gang.shape
    return shape.size if shape is not None and shape.open else None


def _own_rank(pod: Member, gang: Gang | None) -> int | None:
    member = pod.membership
    if member is None or member.place is None:
        return None if member is None else member.rank
    return None if gang is None or gang.shape is None else rank_of(member, gang.shape)


def _gang_problem(gang: Gang) -> Problem | None:
    """What is wrong with the gang itself."""
    size = gang.member.size if gang.shape is None else gang.shape.size
    if gang.problem is not None or size is None or size <= MOST_GANG_PODS:
        return gang.problem
    return Problem(
        f"number of pods of gang {gang.member.name}", str(size), f"at most {MOST_GANG_PODS}"
    )


def _with_unknown(reading: Reading, unknown: Sequence[str]) -> Reading:
    """The reading, and why the size of pods that do not exist yet is not known."""
    if not unknown:
        return reading
    message = (
        "The size of pods of the gang that do not exist yet is not known, so they get slots like "
        f"those of the pods before them: {'; '.join(unknown[:_MOST_NAMED])}"
    )
    remark = Remark(Reason.REQUIREMENT_IGNORED, clipped(message))
    return replace(reading, remarks=(*reading.remarks, remark))


def _of_shapes(reading: Reading, shapes: int) -> Reading:
    """The reading of a gang whose pods have this many different sizes. If Slurm cannot do what
    they ask for, it has a problem in place of the request, or one more remark.
    """
    request = reading.request
    if shapes < 2 or not isinstance(request, JobRequest):
        return reading
    if shapes > MOST_SHAPES:
        expected = f"at most {MOST_SHAPES} in one gang"
        return replace(
            reading, request=(Problem("different sizes of pods", str(shapes), expected),)
        )
    if request.required_nodes:
        named = ",".join(sorted(request.required_nodes)[:_MOST_NAMED])
        expected = "none, because the pods of the gang have several sizes, and each size gets nodes"
        problem = Problem(called("required_nodes", request), named, f"{expected} of its own")
        return replace(reading, request=(problem,))
    if not request.no_kill:
        return reading
    remark = Remark(Reason.REQUIREMENT_IGNORED, _NO_KILL)
    return replace(reading, remarks=(*reading.remarks, remark))


def _differs(first: Pod, one: JobRequest, other: JobRequest) -> Problem:
    named = ", ".join(
        f"{name} {getattr(other, name)!r}"
        for name in ("partition", "account", "qos")
        if getattr(one, name) != getattr(other, name)
    )
    return Problem(
        "the pod's annotations for Slurm",
        named or "others",
        f"the same as that of pod {first.metadata.name}, because both belong to one gang",
    )
