"""A gang: the pods of one group of Kubernetes, which share one job and start together.

Which pods belong to a gang: `membership.py`. How many there must be: `gang_shape.py`. Here is what
the decisions ask: is a pod still missing (and the text that says which), which slots does the job
need, is a pod expected back, so that the job is kept for `--gang-linger`?
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import islice
from typing import Final

from scheduler.core.actions import Action, Again, PartWith, ReadGang, Tell
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import RUNS, GangFacts, PodFacts, PodStage, Tracked, UnitFacts
from scheduler.core.gang_patience import (
    REREAD_SECONDS,
    may_never_be_complete,
    read_when,
    until_it_may_not,
    wait_for_object,
)
from scheduler.core.intervals import LINGER_LOOK_SECONDS, SLOW_LOOK_SECONDS
from scheduler.core.owner_tag import MOST_COMPONENTS
from scheduler.core.shapes import PodShape, kinds_of, shapes_of, with_expected
from scheduler.core.slot_choice import Seat, suits
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState

_MOST_NAMES: Final = 3


def serves(pod: PodFacts) -> bool:
    """Whether the gang need not wait for this pod: it can be started, runs, or has succeeded."""
    return pod.stage in RUNS or pod.stage is PodStage.WAITING or pod.succeeded


def missing_of(facts: UnitFacts, gang: GangFacts) -> str:
    """Which pods must come before any starts; "" if none must. Once a pod runs, each lives by
    itself. A gang whose pods come in steps starts with those that exist.
    """
    if gang.size is None or facts.any_runs:
        return ""
    there = {pod.rank for pod in facts.pods if serves(pod) and pod.rank < gang.size} | gang.done
    if len(there) >= gang.minimum:
        return ""
    away = [rank for rank in range(gang.size) if rank not in there]
    needed = away[: gang.minimum - len(there)]
    return (
        f"gang {gang.name} ({len(there)} of {gang.size} pods exist): waiting for "
        f"{_named(gang, needed)}"
    )


def _named(gang: GangFacts, away: list[int]) -> str:
    if not gang.ranked:
        return "1 more pod" if len(away) == 1 else f"{len(away)} more pods"
    shown = ", ".join(f"{gang.name}-{rank}" for rank in islice(away, _MOST_NAMES))
    more = len(away) - _MOST_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


def before_submit(facts: UnitFacts, pods: tuple[PodFacts, ...], now: float) -> tuple[Action, ...]:
    """What to do while no job can be submitted for a gang, because its size is not known or pods
    are missing; () if nothing prevents it, and for a single pod.
    """
    gang = facts.gang
    if gang is None:
        return ()
    if gang.absent_since is not None:
        return wait_for_object(gang, gang.absent_since, pods, now)
    if gang.disbanded and gang.read_at is not None:
        return read_when(gang.read_at + LINGER_LOOK_SECONDS, now)
    if gang.size is None or gang.unread:
        return (ReadGang(),)
    missing = missing_of(facts, gang)
    if not missing:
        beyond = _beyond(gang, pods)
        if not beyond:
            return ()
        words = (Tell(pod, Reason.GANG_INCOMPLETE, beyond) for pod in pods)
        return (*words, *_read_again(gang, now))
    if now < gang.untold_until:
        return (Again(gang.untold_until - now),)
    more = may_never_be_complete(gang, now)
    message = (
        f"{missing[:1].upper()}{missing[1:]}. One Slurm job is submitted for all of them{more}"
    )
    tell = (Tell(pod, Reason.GANG_INCOMPLETE, message) for pod in pods)
    soon = until_it_may_not(gang, now)
    return (*tell, *(() if soon is None else (Again(soon),)), *_read_again(gang, now))


def _beyond(gang: GangFacts, pods: tuple[PodFacts, ...]) -> str:
    """Why no job of this size has a slot for each of the pods that wait; "" if it has."""
    if gang.size is None:
        return ""
    beyond = [pod.name for pod in pods if pod.rank >= gang.size]
    if not beyond:
        return ""
    remedy = f"correct {gang.group}" if gang.has_object else "create all anew with the real size"
    return (
        f"Gang {gang.name} has more pods than its size, {gang.size}, says: none is left for "
        f"{beyond[0]}. Delete pods, or {remedy}"
    )


def _read_again(gang: GangFacts, now: float) -> tuple[Action, ...]:
    """The object may say another number of pods by now."""
    if gang.read_at is None:
        return (Again(SLOW_LOOK_SECONDS),)  # the pods themselves say how many there are
    return read_when(gang.read_at + REREAD_SECONDS, now)


def seats_asked(facts: UnitFacts) -> tuple[Seat, ...]:
    """The slots of a job for the unit's waiting pods, in the order of their ranks. A pod that has
    succeeded needs none. A pod that is still to come has one without a uid.
    """
    waiting = {
        pod.rank: Seat(pod.rank, pod.uid, pod.name)
        for pod in facts.pods
        if pod.stage is PodStage.WAITING
    }
    gang = facts.gang
    if gang is None or gang.size is None:
        return tuple([waiting[rank] for rank in sorted(waiting)])
    done = (gang.done | {pod.rank for pod in facts.pods if pod.succeeded}) - waiting.keys()
    return tuple(waiting.get(rank, Seat(rank)) for rank in range(gang.size) if rank not in done)


def seats_running(facts: UnitFacts) -> tuple[Seat, ...]:
    """The slots of a job for the pods that run already."""
    running = {it.rank: Seat(it.rank, it.uid, it.name) for it in facts.pods if it.stage in RUNS}
    return tuple([running[rank] for rank in sorted(running)])


def shapes_running(facts: UnitFacts) -> tuple[PodShape, ...]:
    """The shapes of a new job for the pods that run, each for its nodes: one for each size and each
    number of pods on a node. () if they are all alike, or more than a job may have.
    """
    running = {it.rank: it for it in facts.pods if it.stage in RUNS}
    if facts.gang is None or any(it.size is None for it in running.values()):
        return ()
    on_node = Counter(it.node for it in running.values())
    found: list[PodShape] = []
    for shape in shapes_of(seats_running(facts), facts.sizes(running.values())):
        by_room: dict[int, list[Seat]] = {}
        for seat in shape.seats:
            by_room.setdefault(on_node[running[seat.rank].node], []).append(seat)
        for room, seats in by_room.items():
            nodes = tuple(dict.fromkeys(running[it.rank].node for it in seats))
            found.append(PodShape(shape.size, tuple(seats), nodes, room))
    return tuple(found) if 1 < len(found) <= MOST_COMPONENTS else ()


def most_on_one_node(facts: UnitFacts) -> int:
    """How many of the pods that run share a node at most."""
    return max(Counter(it.node for it in facts.pods if it.stage in RUNS).values(), default=1)


def shapes_asked(facts: UnitFacts, seats: tuple[Seat, ...]) -> tuple[PodShape, ...]:
    """The shapes of these seats of a gang, if there are several of them; otherwise ()."""
    waiting = (it for it in facts.pods if it.stage is PodStage.WAITING)
    if facts.gang is None:
        return ()
    found = shapes_of(seats, with_expected(facts.sizes(waiting), facts.gang.templates))
    if len(found) < 2:
        return ()
    return tuple(
        replace(it, excluded=tuple(facts.excluded_for.get(it.size.kind, {}).items()))
        for it in found
    )


def reshaped(facts: UnitFacts, record: TaggedJob) -> str:
    """Which pod that waits asks for something else than its slot of the job; "" if none does."""
    gang, tag = facts.gang, record.tag
    if gang is None or tag is None:
        return ""
    kinds = dict(zip(tag.ranks, kinds_of(tag), strict=True))
    for pod in facts.pods:
        if pod.stage is not PodStage.WAITING or pod.size is None:
            continue
        if not suits(pod.size.kind, kinds.get(pod.rank, "")):
            return (
                f"pod {pod.name} of gang {gang.name} asks for {pod.size}, and its slot of the "
                "Slurm job is of another size"
            )
    return ""


def resized(facts: UnitFacts, record: TaggedJob) -> str:
    """Why the pending job no longer fits the gang: it was scaled, or other pods are to come. Empty
    if it fits.
    """
    gang, tag = facts.gang, record.tag
    if gang is not None and gang.disbanded:
        return f"gang {gang.name} is none any more: {gang.disbanded}"
    if gang is None or gang.size is None or tag is None or missing_of(facts, gang):
        return ""
    wanted = seats_asked(facts)
    if {it.rank for it in wanted} == set(tag.ranks):
        return ""
    return (
        f"gang {gang.name} has {len(wanted)} pods to start now, "
        f"and its Slurm job is for {len(tag.ranks)}"
    )


def outlived(facts: UnitFacts, record: TaggedJob) -> str:
    """Why no pod is to be bound to the allocated nodes, of which none has a pod yet: the gang has
    become smaller, or other pods have come. Empty if they suit it.
    """
    gang, tag = facts.gang, record.tag
    if gang is None or tag is None or facts.any_runs:
        return ""
    if gang.disbanded:
        return f"gang {gang.name} is none any more: {gang.disbanded}"
    if gang.size is not None and not gang.is_open and max(tag.ranks, default=0) >= gang.size:
        return f"gang {gang.name} has {gang.size} pods, and its Slurm job is for {len(tag.ranks)}"
    return reshaped(facts, record)


def outdated(facts: UnitFacts, record: TaggedJob, now: float) -> tuple[Action, ...]:
    """What to do if the gang's object may have been scaled since it was read: there are fewer pods
    than it said, or more. It is read again every 30 s at most. () if there is no need.
    """
    gang, tag = facts.gang, record.tag
    if gang is None or tag is None or not gang.has_object:
        return ()
    if gang.read_at is None:  # by another process
        as_asked = sum(map(serves, facts.pods)) == len(tag.ranks)
        return () if as_asked else (ReadGang(),)
    waiting = tuple(pod for pod in facts.pods if pod.stage is PodStage.WAITING)
    if not missing_of(facts, gang) and not _beyond(gang, waiting):
        return ()
    return read_when(gang.read_at + REREAD_SECONDS, now)


def expected_back(facts: UnitFacts, job: Tracked, now: float) -> tuple[Action, ...]:
    """What to do while no pod is left, but the allocation is kept for pods that are expected again:
    a controller replaces pods that fail. () if none is expected, or none has come for as long as
    `--gang-linger` says; then `decide.py` cancels the job.
    """
    gang, record = facts.gang, job.record
    if gang is None or record is None or record.tag is None or gang.over:
        return ()
    if record.state.base is not BaseState.RUNNING or gang.quiet_since is None:
        return ()
    done = gang.done | {pod.rank for pod in facts.pods if pod.succeeded}
    until = gang.quiet_since + gang.linger_seconds
    if now >= until or done.issuperset(record.tag.ranks):
        return ()
    if gang.has_object and (gang.read_at is None or gang.read_at < gang.quiet_since):
        return (ReadGang(),)
    # A rolling update may replace these pods. The new ones wake nobody when they come.
    return (Again(min(until - now, LINGER_LOOK_SECONDS)),)


def gone_for_good(facts: UnitFacts, now: float) -> tuple[PartWith, ...]:
    """Forget the pods of a gang that no watch shows and that cannot run any more. If the unit has
    no other pod, its job is cancelled instead, and the cancel also makes sure that they are gone.
    """
    gone = tuple(it for it in facts.missing if now >= it.lingers_until)
    return (PartWith(gone),) if gone else ()
