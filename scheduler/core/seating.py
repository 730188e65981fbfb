"""Where the waiting pods of a unit go in the allocation that its job holds now.

`seats.py` gives the slots to ranks. Here each rank gets its pod: if several pods have one rank, the
one that may run keeps the slot, and the newer one waits until it has stopped.
"""

from __future__ import annotations

from typing import Final

from scheduler.core.facts import RUNS, PodFacts, PodStage, UnitFacts
from scheduler.core.naming import OwnerTag
from scheduler.core.seats import Sitter, seats, slots_of
from scheduler.core.tagged import TaggedJob

# A pod that has finished, or will never start, keeps its slot until another of its rank comes.
_WANTS_SLOT: Final = (PodStage.WAITING, PodStage.GATED, PodStage.FINISHED, PodStage.WITHDRAWN)


def seating(facts: UnitFacts, record: TaggedJob) -> dict[str, str] | str:
    """The node of each waiting pod that can have its slot now, by uid. Or why the allocation cannot
    be dealt out, which applies to all of them.
    """
    if any(pod.stage in RUNS and not pod.node for pod in facts.pods):
        return "it is not known which of its nodes the pods that run are on"
    sitters = sitters_of(facts.pods, record.tag)
    slots = slots_of(dict.fromkeys(record.nodes, 1))
    former = () if record.tag is None else record.tag.ranks
    taken = None if len(slots) > len(sitters) else seats(sitters, slots, former=former)
    if taken is None:
        return f"it holds {len(slots)} nodes for {len(sitters)} pods"
    waiting = {pod.uid for pod in facts.pods if pod.stage is PodStage.WAITING}
    return {uid: slots[slot] for uid, slot in taken.items() if uid in waiting}


def sitters_of(pods: tuple[PodFacts, ...], tag: OwnerTag | None) -> tuple[Sitter, ...]:
    """Who has a slot or needs one: every pod that may run, and one pod for each other rank. If a
    rank has no pod any more, its slot is kept for the pod that the tag names.
    """
    running: list[Sitter] = []
    others: dict[int, Sitter] = {}
    for pod in sorted(pods, key=_comes_first):
        if pod.stage in RUNS:
            running.append(Sitter(uid=pod.uid, rank=pod.rank, node=pod.node))
        else:
            others.setdefault(pod.rank, Sitter(uid=pod.uid, rank=pod.rank))
    for uid, rank in () if tag is None else zip(tag.uids, tag.ranks, strict=False):
        others.setdefault(rank, Sitter(uid=uid, rank=rank))
    for sitter in running:
        others.pop(sitter.rank, None)
    return (*running, *others.values())


def _comes_first(pod: PodFacts) -> tuple[int, str]:
    order = _WANTS_SLOT.index(pod.stage) if pod.stage in _WANTS_SLOT else len(_WANTS_SLOT)
    return order, pod.uid
