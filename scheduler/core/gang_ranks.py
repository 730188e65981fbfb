"""The ranks of a gang's pods: their own, or the free ones in the order of their names.

A pod whose source gives it a rank keeps it. The ranks of all others stand in the owner tag of their
job as soon as there is one, so that the next process gives each the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from scheduler.core.naming import OwnerTag

_ORDINAL: Final = re.compile(r"[0-9]{1,9}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A pod of a gang. `own` is the rank that its source gives it, None if it gives none. `counts`
    says that the pod holds its rank: it waits, may run, or has succeeded.
    """

    uid: str
    name: str
    own: int | None = None
    counts: bool = True


def ranks_of(pods: Sequence[Ranked], tag: OwnerTag | None) -> dict[str, int]:
    """The rank of each pod, by uid. A pod that holds no rank and has none gets one beyond all."""
    noted = {} if tag is None else dict(zip(tag.uids, tag.ranks, strict=False))
    ranks = {it.uid: it.own for it in pods if it.own is not None}
    for pod in pods:
        if pod.uid not in ranks and pod.uid in noted:
            ranks[pod.uid] = noted[pod.uid]
    held = {ranks[it.uid] for it in pods if it.counts and it.uid in ranks}
    free = _free(held, () if tag is None else tag.ranks)
    rest = sorted((it for it in pods if it.uid not in ranks), key=_order)
    for pod in sorted(rest, key=lambda it: not it.counts):
        ranks[pod.uid] = next(free)
    return ranks


def _free(held: set[int], slots: Sequence[int]) -> Iterator[int]:
    """Ranks that nobody holds: first those for which the job has slots."""
    yield from (rank for rank in slots if rank not in held)
    taken = held.union(slots)
    yield from (rank for rank in count() if rank not in taken)


def _order(pod: Ranked) -> tuple[int, str]:
    """By the number at the end of the name, which controllers count up; otherwise by the name."""
    found = _ORDINAL.search(pod.name)
    return (int(found.group()) if found else 0, pod.name)
