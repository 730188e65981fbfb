"""Which pod of a unit gets which slot of its job's allocation.

An allocation is a row of slots: the nodes in Slurm's order, each as often as it has room for pods
of the unit. Ranks follow that order, so that Slurm's knowledge of the network reaches them. A pod
that comes in the place of another of the same rank gets that one's slot. `seating.py` calls this
for the pods of a unit; a unit of one pod has one slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Seat:
    """A slot's rank, and the uid and the name of the pod that has it; "" while there is none."""

    rank: int
    uid: str = ""
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitter:
    """A pod that has a slot or needs one. `node` is the Slurm node on which it may run; "" if it is
    on none. `kind` is the kind of slots that suit it (`shapes.py`); "" if any does. A pod that no
    watch shows any more is one too, as long as its slot is held for it.
    """

    uid: str
    rank: int
    node: str = ""
    kind: str = ""


def slots_of(rooms: Mapping[str, int]) -> tuple[str, ...]:
    """The node of each slot, if each node, in Slurm's order, has room for this many pods."""
    return tuple(node for node, room in rooms.items() for _ in range(room))


def seats(
    sitters: Iterable[Sitter],
    slots: Sequence[str],
    *,
    former: Sequence[int] = (),
    kinds: Sequence[str] = (),
) -> dict[str, int]:
    """The slot of each pod that gets one, by uid.

    `former` are the ranks to which the slots were given before, from the first slot on. A pod that
    is on a node stays there. If no slot is free there, it has none, and takes none from the others.
    Of pods that are on no node yet, those whose rank has a slot already get it, then the others.
    `kinds` are those of the slots, if not all are alike. A pod whose rank has a slot of another
    kind gets none.
    """
    row = _Row(slots, former, kinds)
    ordered = sorted(sitters, key=lambda it: (it.rank, it.uid))
    standing = [it for it in ordered if it.node]
    coming = [it for it in ordered if not it.node]
    # What a rank had before comes first, or a pod without a former slot would take it.
    left = [it for it in standing if not row.takes_back(it)]
    for sitter in left:
        row.takes_any(sitter)
    left = [it for it in coming if not row.takes_back(it)]
    for sitter in left:
        row.takes_any(sitter)
    return row.taken


def suits(kind: str, slot: str) -> bool:
    """Whether a pod of this kind can have a slot of that kind; "" is one that is not known."""
    return not kind or not slot or kind == slot


class _Row:
    """The slots while they are given away."""

    def __init__(self, slots: Sequence[str], former: Sequence[int], kinds: Sequence[str]) -> None:
        self._slots = slots
        self._kinds = kinds or ("",) * len(slots)
        self._free = dict.fromkeys(range(len(slots)))
        self._former = {rank: slot for slot, rank in enumerate(former) if slot < len(slots)}
        self.taken: dict[str, int] = {}

    def takes_back(self, sitter: Sitter) -> bool:
        """Give the sitter the former slot of its rank. False if the rank had none, or if that slot
        is taken, does not suit the sitter, or is on another node than the sitter.
        """
        slot = self._former.get(sitter.rank)
        return slot is not None and self._take(sitter, slot)

    def takes_any(self, sitter: Sitter) -> bool:
        """Give the sitter the first slot that suits it. False if there is none."""
        own = self._former.get(sitter.rank)
        if own is not None and not suits(sitter.kind, self._kinds[own]):
            return False
        slot = next((slot for slot in self._free if self._suits(sitter, slot)), None)
        return slot is not None and self._take(sitter, slot)

    def _suits(self, sitter: Sitter, slot: int) -> bool:
        there = sitter.node in {"", self._slots[slot]}
        return there and suits(sitter.kind, self._kinds[slot])

    def _take(self, sitter: Sitter, slot: int) -> bool:
        if slot not in self._free or not self._suits(sitter, slot):
            return False
        del self._free[slot]
        self.taken[sitter.uid] = slot
        return True
