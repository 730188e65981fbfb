"""A gang gives nodes back as soon as no pod needs them: all there have succeeded and none comes
again, or the gang was made smaller.

Slurm can take nodes from a running job that has no script. Everything about that is read from the
job's record and from the pods, so a process that dies on the way leaves nothing half done: the next
one sees the nodes that the job holds. Which rank was on which node is written into the owner tag
before or together with the change, because the record no longer shows it afterwards.

Each component of a heterogeneous job keeps a node until the job ends: one without nodes would have
ended, and with it the job. `execute/early_release.py` sends the change, one request for each
component.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Final

from scheduler.core.actions import GiveBack, ReadGang
from scheduler.core.facts import RUNS, GangFacts, PodFacts, PodStage, UnitFacts
from scheduler.core.intervals import SLOW_LOOK_SECONDS
from scheduler.core.lost_slots import nodes_of_ranks
from scheduler.core.owner_tag import OwnerTag
from scheduler.core.tagged import TaggedJob

_OVER: Final = frozenset({PodStage.FINISHED, PodStage.WITHDRAWN})


def early_release(facts: UnitFacts, record: TaggedJob, now: float) -> tuple[GiveBack, ...]:
    """Give back the nodes that no pod needs any more; () if there are none. A node is given back
    only if each of its slots had a pod that has succeeded, or has a rank that the gang does not
    have any more. Otherwise, if a pod failed there, or never came, a pod is still expected there.
    """
    gang, tag = facts.gang, record.tag
    if gang is None or tag is None or record.batch or now < facts.give_back_at:
        return ()
    if facts.missing or not facts.owns(record) or record.state.flags or not record.laid_out:
        return ()
    if any(map(_is_astray, facts.pods)):
        return ()  # Nodes were mapped anew, and so a pod may still run on any of these nodes
    named = frozenset(tag.uids)
    done, busy = defaultdict[str, set[int]](set), set[str]()
    for pod in facts.pods:
        if pod.stage in RUNS:
            busy.add(pod.node)
        elif pod.final and pod.uid in named:
            done[pod.node].add(pod.rank)
    at, size = _node_of_each_slot(facts, record, tag), _size(gang)
    needed = {pod.rank for pod in facts.pods if pod.stage not in _OVER}
    for rank, node in zip(tag.ranks, at, strict=False):
        if rank >= size and rank not in needed:
            done[node].add(rank)
    room = {node: slots for rooms in record.rooms for node, slots in rooms.items()}
    spare = {node for node, slots in room.items() if len(done[node]) >= slots} - busy
    keep = tuple(node for rooms in record.rooms for node in _kept_nodes(tuple(rooms), spare))
    if len(keep) == len(record.nodes) or spare.issuperset(record.nodes):
        return ()
    return (GiveBack(record.job_id, keep, at),) if at else ()


def _is_astray(pod: PodFacts) -> bool:
    """Whether the Node of the pod now counts as another Slurm node than when it was bound."""
    if not pod.node:
        return pod.stage in RUNS
    return pod.said_node not in {"", pod.node}


def vacated(facts: UnitFacts, record: TaggedJob, now: float) -> tuple[ReadGang, ...]:
    """Read the gang's object again, rarely, while a slot has no pod: it may have become smaller."""
    gang, tag = facts.gang, record.tag
    if gang is None or tag is None or not gang.has_object or gang.is_open:
        return ()
    if gang.read_at is not None and now < gang.read_at + SLOW_LOOK_SECONDS:
        return ()
    there = {pod.rank for pod in facts.pods if pod.stage not in _OVER or pod.succeeded}
    return () if there | gang.done >= set(tag.ranks) else (ReadGang(),)


def _size(gang: GangFacts) -> float:
    """The number of ranks that the gang has. Of a PodGroup it is not known."""
    return math.inf if gang.size is None or gang.is_open else gang.size


def _kept_nodes(nodes: tuple[str, ...], spare: set[str]) -> tuple[str, ...]:
    """Those of a component's nodes that it keeps."""
    return tuple(node for node in nodes if node not in spare) or nodes[:1]


def _node_of_each_slot(facts: UnitFacts, record: TaggedJob, tag: OwnerTag) -> tuple[str, ...]:
    """The node of each rank in the tag: where its pod is or was, else by the order of the slots. ()
    if that contradicts what each node has room for.
    """
    known = tag.at or record.slots
    if len(known) != len(tag.ranks):
        return ()
    seen = nodes_of_ranks(facts.pods, tag)
    at = tuple(seen.get(rank, node) for rank, node in zip(tag.ranks, known, strict=True))
    return at if Counter(at) == Counter(known) else ()
