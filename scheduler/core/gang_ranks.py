"""The ranks of a gang's pods: their own, or the free ones in the order of their names.

A pod whose source gives it a rank keeps it, and so has the place of the pod that it replaces. All
others get a free rank, such as that of a pod that has ended. These ranks stand in the owner tag of
their job as soon as there is one, so that the next process gives each the same.

A PodGroup says only how many pods start together. So its gang is *open*: as many of its pods
are the gang, those with the lowest ranks first, and the others are beyond it (`spare_pods.py`).
`facts/gang_facts.py` says of each pod which rank is its own, and whether it still holds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, unique
from itertools import count
from typing import Final

import msgspec

from scheduler.core.owner_tag import OwnerTag

_LONGEST_ORDINAL: Final = 9
_ORDINAL: Final = re.compile(r"[0-9]+\Z")


@unique
class RankHold(IntEnum):
    """How a pod holds its rank, the firmest first."""

    RUNS = 0
    LEAVES = 1
    """It may still run, but not for long: the pod that replaces it waits for the same rank."""
    WAITS = 2
    GATED = 3
    """It cannot be started yet."""
    DONE = 4
    """It has succeeded."""
    GONE = 5
    """It holds no rank."""


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a gang. `own` is the rank that its source gives it, None if it gives none."""

    uid: str
    name: str
    own: int | None = None
    standing: RankHold = RankHold.WAITS

    @property
    def counts(self) -> bool:
        """Whether it holds its rank."""
        return self.standing is not RankHold.GONE


_LEAVES: Final = RankHold.LEAVES
_MAKES_ROOM: Final = frozenset({RankHold.LEAVES, RankHold.DONE})
"""A pod with one of these standings shares its rank with one that comes in its place."""


def ranks_of(pods: Sequence[Ranked], tag: OwnerTag | None) -> dict[str, int]:
    """The rank of each pod, by uid. Pods without a known rank get free ranks, and those of them
    that hold no rank come last.
    """
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


def open_ranks(pods: Iterable[Ranked], tag: OwnerTag | None, *, size: int) -> dict[str, int]:
    """The rank of each pod of an open gang of this size, by uid. `beyond` finds the pods that
    have no part in the gang. A pod that the job's tag names keeps its rank. Any other pod gets the
    rank that the tag gives to a pod of its name, or else its own rank, if that is free. The
    remaining pods get free ranks. But while the gang runs, a pod whose own rank does not belong to
    the gang gets no slot, because another pod is expected there.
    """
    pods = sorted(pods, key=_own_order)
    runs = any(it.standing is RankHold.RUNS for it in pods)
    found = _OpenRanks(tag, size, strangers=tag is None or not runs)
    noted = {} if tag is None else dict(zip(tag.uids, tag.ranks, strict=True))
    by_standing: dict[RankHold, list[Ranked]] = {it: [] for it in RankHold}
    for pod in pods:
        if pod.uid in noted:
            found.take(pod, noted[pod.uid])
        else:
            by_standing[pod.standing].append(pod)
    for others in by_standing.values():
        left = [it for it in others if not found.takes_its_own(it)]
        for pod in left:
            found.takes_any(pod)
    return found.ranks


def beyond(ranks: Iterable[int], tag: OwnerTag | None, *, size: int) -> frozenset[int]:
    """Those of these ranks whose pods have no part in an open gang of this size with this job."""
    known = () if tag is None else tag.ranks
    return frozenset(it for it in ranks if it >= size).difference(known)


class _OpenRanks:
    """The ranks of an open gang while they are given to its pods. `strangers` says whether pods
    whose own rank does not belong to the gang get a rank of the gang too.
    """

    def __init__(self, tag: OwnerTag | None, size: int, *, strangers: bool) -> None:
        self._strangers = strangers
        former = () if tag is None else tag.ranks
        self._slots = dict.fromkeys((*former, *range(size)))
        self._in_order: tuple[int, ...] = tuple(self._slots)
        names = () if tag is None else tag.names
        self._names = {name: rank for name, rank in zip(names, former, strict=True) if name}
        self._beyond = count(max(self._slots, default=-1) + 1)
        self._held: dict[int, RankHold] = {}
        # Of the slots before these, none is free, and none is that of a pod that leaves.
        self._first_free = self._first_left = 0
        self.ranks: dict[str, int] = {}

    def take(self, pod: Ranked, rank: int) -> None:
        """Give the pod this rank."""
        self.ranks[pod.uid] = rank
        if pod.counts and (rank not in self._held or self._held[rank] in _MAKES_ROOM):
            self._held[rank] = pod.standing
            if pod.standing is _LEAVES:
                self._first_left = 0  # this slot may have been passed when another had it

    def takes_its_own(self, pod: Ranked) -> bool:
        """Give the pod the rank that its name had, or its own. False if it has none of the gang's,
        or if another holds it.
        """
        rank = self._names.get(pod.name, pod.own)
        if rank is None or rank not in self._slots:
            return False
        if self._held.get(rank, RankHold.DONE) not in _MAKES_ROOM:
            return False
        self.take(pod, rank)
        return True

    def takes_any(self, pod: Ranked) -> None:
        """Give the pod a free rank; if there is none, the rank of a pod that leaves; otherwise a
        rank beyond all others.
        """
        fits = self._strangers or pod.own is None or pod.own in self._slots
        free = self._free() if pod.counts and fits else None
        self.take(pod, next(self._beyond) if free is None else free)

    def _free(self) -> int | None:
        slots, held = self._in_order, self._held
        while self._first_free < len(slots) and slots[self._first_free] in held:
            self._first_free += 1
        if self._first_free < len(slots):
            return slots[self._first_free]
        while self._first_left < len(slots) and held[slots[self._first_left]] is not _LEAVES:
            self._first_left += 1
        return slots[self._first_left] if self._first_left < len(slots) else None


def _free(held: set[int], slots: Sequence[int]) -> Iterator[int]:
    """Ranks that nobody holds: first those for which the job has slots."""
    yield from (rank for rank in slots if rank not in held)
    taken = held.union(slots)
    yield from (rank for rank in count() if rank not in taken)


def _order(pod: Ranked) -> tuple[int, str]:
    """By the number at the end of the name, which controllers count up; otherwise by the name."""
    found = _ORDINAL.search(pod.name[-_LONGEST_ORDINAL:])
    return (int(found.group()) if found else 0, pod.name)


def _own_order(pod: Ranked) -> tuple[int, str]:
    """By the pod's own rank, if it has one."""
    number, name = _order(pod)
    return (number if pod.own is None else pod.own, name)
