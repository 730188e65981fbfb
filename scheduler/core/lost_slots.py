"""Slots that the running job of a gang has lost. Such a job can lose nodes, but gets no new ones.

Slurm takes a node that has failed (annotation `no-kill`), an operator makes the job smaller, or the
scheduler gives a node back (`early_release.py`). The ranks on that node have no slot then, and do
not take those of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from scheduler.core.facts import RUNS, PodFacts, PodStage, UnitFacts
from scheduler.core.owner_tag import OwnerTag
from scheduler.core.slot_choice import slots_of
from scheduler.core.tagged import TaggedJob

_HAD_NODE: Final = RUNS | {PodStage.FINISHED}


def ranks_kept(pods: Sequence[PodFacts], record: TaggedJob) -> tuple[int, ...]:
    """The rank of each slot that a heterogeneous job still has, in the order of the slots. A
    component that has lost nodes takes no slots of another.
    """
    tag = record.tag
    if tag is None:
        return ()
    ranks = iter(tag.ranks)
    kept: list[int] = []
    for part, rooms in zip(tag.parts, record.rooms, strict=False):
        own = tuple(islice(ranks, part.slots))
        kept += kept_ranks(pods, tag, slots_of(rooms), of=own)
    return tuple(kept)


def kept_ranks(
    pods: Iterable[PodFacts], tag: OwnerTag, slots: Sequence[str], *, of: Sequence[int] = ()
) -> tuple[int, ...]:
    """The rank of each of these slots, in the order of the slots. `of` are the ranks of the one
    component to which the slots belong; without it, all ranks of the tag are considered.

    If the scheduler has given nodes back, the tag names the node of each rank. Otherwise only the
    pods show which ranks have lost their slots: first those whose pods were on other nodes, then
    those whose node is not known, beginning with the highest rank.
    """
    held = frozenset(slots)
    if tag.at:
        return tuple(rank for rank, node in zip(tag.ranks, tag.at, strict=True) if node in held)
    ranks = tuple(of) or tag.ranks
    lost = len(ranks) - len(slots)
    if lost <= 0:
        return ranks
    here, away = set[int](), set[int]()
    for rank, node in nodes_of_ranks(pods, tag).items():
        (here if node in held else away).add(rank)
    by_doubt = sorted(ranks, key=lambda rank: (rank in here, rank not in away, -rank))
    gone = set(by_doubt[:lost])
    return tuple(rank for rank in ranks if rank not in gone)


def nodes_of_ranks(pods: Iterable[PodFacts], tag: OwnerTag) -> dict[int, str]:
    """The node on which the pod of each rank is, or was until it ended. Ranks whose pod never had
    one, or is not in the tag, are left out.
    """
    named = frozenset(tag.uids)
    return {
        pod.rank: pod.node
        for pod in pods
        if pod.node and pod.uid in named and pod.stage in _HAD_NODE
    }


def on_lost_nodes(
    facts: UnitFacts, bound: tuple[PodFacts, ...], record: TaggedJob
) -> tuple[PodFacts, ...]:
    """Those of these pods that run on a node which the job has lost, while it goes on with the
    others. A job that was started anew elsewhere has all its nodes.

    The Node of a pod may count as another Slurm node than when the pod was bound, because a label
    was changed. So no pod is on a lost node whose own node the job holds by its tag, nor are any if
    they are more than the slots that the job has lost.
    """
    tag = record.tag
    if facts.gang is None or tag is None or not facts.owns(record):
        return ()
    lost, nodes = len(tag.ranks) - len(record.slots), frozenset(record.nodes)
    held = {uid for uid, node in zip(tag.uids, tag.at, strict=False) if node in nodes}
    away = tuple(pod for pod in bound if pod.node and pod.node not in nodes and pod.uid not in held)
    return away if len(away) <= lost else ()
