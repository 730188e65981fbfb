"""Slots that the running job of a gang has no more. Its nodes may become fewer, and never more.

Slurm takes a node that has failed (annotation `no-kill`), an operator makes the job smaller, or the
scheduler gives a node back (`early_release.py`). The ranks on that node have no slot then, and do
not take those of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.core.facts import RUNS, PodFacts, PodStage, UnitFacts
from scheduler.core.naming import OwnerTag
from scheduler.core.tagged import TaggedJob

_HAD_NODE: Final = RUNS | {PodStage.FINISHED}


def kept_ranks(pods: Iterable[PodFacts], tag: OwnerTag, slots: Sequence[str]) -> tuple[int, ...]:
    """The ranks that have the slots which the job still has, in the order of the slots.

    If the scheduler has given nodes back, the tag says which rank was where. Otherwise nothing says
    which rank was on a node that the job has lost, but most pods do. If a rank has no pod, those
    that have one keep their slots first.
    """
    if tag.at:
        return tuple(rank for rank, node in zip(tag.ranks, tag.at, strict=True) if node in slots)
    lost = len(tag.ranks) - len(slots)
    if lost <= 0:
        return tag.ranks
    here, away = set[int](), set[int]()
    for rank, node in nodes_of_ranks(pods, tag).items():
        (here if node in slots else away).add(rank)
    by_doubt = sorted(tag.ranks, key=lambda rank: (rank in here, rank not in away, -rank))
    gone = set(by_doubt[:lost])
    return tuple(rank for rank in tag.ranks if rank not in gone)


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
    """
    tag = record.tag
    if facts.gang is None or tag is None or not facts.owns(record):
        return ()
    if len(record.nodes) * tag.per_node >= len(tag.ranks):
        return ()
    return tuple(pod for pod in bound if pod.node and pod.node not in record.nodes)
