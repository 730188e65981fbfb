"""Where the pods of a unit are, or go, in the allocation that its job holds now.

`slot_choice.py` gives the slots to ranks. Here each rank gets its pod: if several pods have one
rank, the one that may run keeps the slot, and the newer one waits until it has stopped. Which rank
a pod has: `gang_ranks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.core.actions import Reseat
from scheduler.core.facts import RUNS, PodFacts, PodStage, UnitFacts
from scheduler.core.lost_slots import kept_ranks, ranks_kept
from scheduler.core.owner_tag import PACKED, OwnerTag, TagPart
from scheduler.core.shapes import kinds_of
from scheduler.core.slot_choice import Seat, Sitter, seats, suits
from scheduler.core.tagged import TaggedJob

# A pod that has finished, or will never start, keeps its slot until another of its rank comes.
_WANTS_SLOT: Final = (PodStage.WAITING, PodStage.GATED, PodStage.FINISHED, PodStage.WITHDRAWN)
_IS_OVER: Final = frozenset({PodStage.FINISHED, PodStage.WITHDRAWN})


class Seating(msgspec.Struct, frozen=True):
    """The node of each slot, and the slot of each pod that has one, by uid. `gone` are ranks of the
    gang for which the job has no slot, because it has lost nodes or the gang has grown. `unlike`
    are the uids of pods that ask for something else than the slot of their rank has, and `haunted`
    those of pods in whose slot a pod that nobody sees may still run.
    """

    slots: tuple[str, ...]
    taken: dict[str, int]
    gone: frozenset[int] = frozenset()
    unlike: frozenset[str] = frozenset()
    haunted: frozenset[str] = frozenset()

    def nodes_of(self, pods: Sequence[PodFacts]) -> dict[str, str]:
        """The node of each of these pods that has a slot, by uid."""
        return {it.uid: self.slots[self.taken[it.uid]] for it in pods if it.uid in self.taken}


def seating(facts: UnitFacts, record: TaggedJob, now: float) -> Seating | str:
    """The slots of the unit's pods; or why the allocation cannot be dealt out to any of them.
    Before any of the pods runs, each waiting pod must have a slot. If a pod that nobody sees may
    still run in a slot, no other pod gets that slot.
    """
    if any(pod.stage in RUNS and not pod.node for pod in facts.pods):
        return "it is not known which of its nodes the pods that run are on"
    tag, slots = record.tag, record.slots
    if tag is None or not tag.parts:
        former = () if tag is None else kept_ranks(facts.pods, tag, slots)
    else:
        former = ranks_kept(facts.pods, record)
    kinds = () if facts.gang is None else _kinds(tag, former, slots)
    gone = _expected_ranks(facts, tag).difference(former)
    everybody = sitters_of(facts.pods, tag)
    sitters = [it for it in everybody if it.node or it.rank not in gone]
    taken = seats(sitters, slots, former=former, kinds=kinds)
    needed = max(len(everybody), len(former))
    comes = any(it.stage is PodStage.WAITING and it.rank in gone for it in facts.pods)
    whole = not comes and all(it.node or it.uid in taken for it in sitters)
    too_many = len(slots) > needed and len(slots) >= needed + _least_room(record)
    if too_many or not (whole or facts.any_runs):
        return f"it holds {len(record.nodes)} nodes for {needed} pods"
    ranks = {it.rank for it in facts.missing if now < it.lingers_until}
    waits = (it for it in facts.pods if it.stage is PodStage.WAITING and it.rank in ranks)
    haunted = frozenset(it.uid for it in waits)
    left = {uid: slot for uid, slot in taken.items() if uid not in haunted}
    unlike = _unlike(sitters, former, kinds) if kinds else frozenset()
    return Seating(slots, left, gone, unlike, haunted)


def miscounted(record: TaggedJob) -> bool:
    """Whether a component that Slurm has packed seems to have more slots than it was submitted
    with.
    """
    tag = record.tag
    if tag is None:
        return False
    parts = tag.parts or (TagPart(len(tag.ranks), tag.per_node),)
    pairs = zip(parts, record.rooms, strict=False)
    return any(it.per_node == PACKED and sum(rooms.values()) > it.slots for it, rooms in pairs)


def _least_room(record: TaggedJob) -> int:
    """The fewest slots of any node. A job that has as many slots too many has a node too many."""
    rooms = (slots for rooms in record.rooms for slots in rooms.values())
    return 1 if record.parts else min(rooms, default=1)


def _unlike(
    sitters: Sequence[Sitter], former: Sequence[int], kinds: Sequence[str]
) -> frozenset[str]:
    """Those that ask for something else than the slot of their rank has."""
    by_rank = dict(zip(former, kinds, strict=False))
    return frozenset(it.uid for it in sitters if not suits(it.kind, by_rank.get(it.rank, "")))


def _kinds(tag: OwnerTag | None, former: Sequence[int], slots: Sequence[str]) -> tuple[str, ...]:
    """The kind of each slot of a gang's job; () if the tag is not known."""
    if tag is None:
        return ()
    of_rank = dict(zip(tag.ranks, kinds_of(tag), strict=True))
    kinds = [of_rank[rank] for rank in former[: len(slots)]]
    return (*kinds, *("",) * (len(slots) - len(kinds)))


def _expected_ranks(facts: UnitFacts, tag: OwnerTag | None) -> frozenset[int]:
    """The ranks that the job had slots for, and all those of the gang."""
    if tag is None or facts.gang is None:
        return frozenset(() if tag is None else tag.ranks)
    return frozenset(tag.ranks).union(range(facts.gang.size or 0))


def sitters_of(pods: tuple[PodFacts, ...], tag: OwnerTag | None) -> tuple[Sitter, ...]:
    """Who has a slot or needs one: every pod that may run, and one pod for each other rank. If a
    rank has no pod any more, its slot is kept for the pod that the tag names. A pod that is over
    has a slot only if the job was submitted or changed for it.
    """
    named = frozenset(() if tag is None else tag.uids)
    running: list[Sitter] = []
    others: dict[int, Sitter] = {}
    for pod in sorted(pods, key=_comes_first):
        if pod.stage in RUNS:
            running.append(Sitter(uid=pod.uid, rank=pod.rank, node=pod.node))
        elif pod.stage not in _IS_OVER or pod.uid in named:
            kind = pod.size.kind if pod.size and pod.stage is PodStage.WAITING else ""
            others.setdefault(pod.rank, Sitter(uid=pod.uid, rank=pod.rank, kind=kind))
    for uid, rank in () if tag is None else zip(tag.uids, tag.ranks, strict=False):
        if uid:
            others.setdefault(rank, Sitter(uid=uid, rank=rank))
    for sitter in running:
        others.pop(sitter.rank, None)
    return (*running, *others.values())


def _comes_first(pod: PodFacts) -> tuple[int, str]:
    order = _WANTS_SLOT.index(pod.stage) if pod.stage in _WANTS_SLOT else len(_WANTS_SLOT)
    return order, pod.uid


def reseated(
    facts: UnitFacts, record: TaggedJob, found: Seating, pods: Sequence[PodFacts]
) -> Reseat | None:
    """How the job's tag must be changed before these pods are bound, so that it names each of them
    in its slot, and the present number of restarts. None if it does already.
    """
    tag = record.tag
    if tag is None:
        return None
    before = seated = tuple(map(Seat, tag.ranks, tag.uids, tag.names))
    if tag.ranks:
        by_uid = {seat.uid: slot for slot, seat in enumerate(seated) if seat.uid}
        if any(by_uid.get(pod.uid) != found.taken[pod.uid] for pod in pods):
            seated = _seats(facts, found, before, _left(facts, record, before))
    if seated == before and tag.restarts == record.restart_count:
        return None
    return Reseat(record.job_id, seated, record.restart_count)


def seats_forgotten(
    facts: UnitFacts, bound: Sequence[PodFacts], record: TaggedJob, now: float
) -> Reseat | None:
    """How the tag of a gang's running job must be changed so that it names pods again that run in
    it; None if it names all that have a slot. A slurmctld that comes back from a crash has
    forgotten the last changes of the tag, and the end of the job would not concern those pods.
    """
    if facts.gang is None or not facts.owns(record):
        return None
    found = seating(facts, record, now)
    if isinstance(found, str):
        return None
    there = found.nodes_of(bound)
    return reseated(facts, record, found, [it for it in bound if there.get(it.uid) == it.node])


def _left(facts: UnitFacts, record: TaggedJob, former: Sequence[Seat]) -> dict[int, Seat]:
    """The slots in which pods may run that no watch shows any more. The next process waits for them
    too, if the tag goes on naming them. Empty if the job has other nodes than when they came.
    """
    tag = record.tag
    if tag is None or tag.restarts != record.restart_count or len(former) != len(record.slots):
        return {}
    missing = {pod.uid for pod in facts.missing}
    return {slot: seat for slot, seat in enumerate(former) if seat.uid in missing}


def _seats(
    facts: UnitFacts, found: Seating, former: Sequence[Seat], left: Mapping[int, Seat]
) -> tuple[Seat, ...]:
    """The seats by slot. A slot that no pod has keeps a rank that is free, for a pod to come. A
    rank whose slot is lost has none. `left` are the slots of pods that have vanished from them, and
    stay named.
    """
    pods = {pod.uid: Seat(pod.rank, pod.uid, pod.name) for pod in facts.pods}
    named = {slot: pods[uid] for uid, slot in found.taken.items() if uid in pods}
    held = {seat.rank for seat in named.values()}
    named = {
        slot: seat for slot, seat in left.items() if seat.rank not in held | found.gone
    } | named
    held = {seat.rank for seat in named.values()}
    free = [seat.rank for seat in former if seat.rank not in held | found.gone]
    return tuple(
        named[slot] if slot in named else Seat(free.pop(0))
        for slot in range(len(found.slots))
        if slot in named or free
    )


def retagged(record: TaggedJob, change: Reseat) -> str | None:
    """The job's tag with this change. None if the change was decided for other nodes than the job
    has now, so that the tag would contradict itself and the job count as a foreign one.
    """
    tag = record.tag
    if tag is None:
        return None
    if not change.seats:
        return tag.encode(restarts=change.restarts)
    ranks = tuple(seat.rank for seat in change.seats)
    slots = (sum(rooms.values()) for rooms in record.rooms)
    changed = replace(
        tag,
        restarts=change.restarts,
        uids=tuple(seat.uid for seat in change.seats),
        ranks=ranks,
        at=tag.at if ranks == tag.ranks else (),  # else the job has all slots of the tag
        names=tuple(seat.name for seat in change.seats),
        parts=tuple(replace(it, slots=n) for it, n in zip(tag.parts, slots, strict=False)),
    )
    return changed.encode() if changed.adds_up else None
