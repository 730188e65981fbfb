"""Pods that are gone from the API without a word of their containers, which may run on.

Nothing of them is left to be asked about: what is known was seen before they went. Each is
forgotten when its time is over, and of one namespace only so many are remembered at once, so that
pods that are made and deleted without end cost a bounded number of bytes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

MOST: Final = 5000
"""Of one namespace, pods that we put on their Nodes: so many were allocations of Slurm's."""
MOST_CLAIMED: Final = 500
"""Of one namespace, pods of which only their author says so: these cost nothing to make."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a pod left: containers that have stopped at `until`, whatever became of them. `by_us`
    says that we had put the pod there.
    """

    uid: str
    namespace: str
    name: str
    until: float
    by_us: bool


class Parted:
    """By uid; where a namespace has too many, the ones that went first are forgotten."""

    def __init__(self) -> None:
        self._left: dict[str, Left] = {}
        self._of: defaultdict[tuple[str, bool], dict[str, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._left)

    def get(self, uid: str) -> Left | None:
        """What that pod left."""
        return self._left.get(uid)

    def add(self, left: Left) -> str | None:
        """The pod is gone; gives the uid of another that is forgotten for it."""
        self.forget(left.uid)
        same = self._of[left.namespace, left.by_us]
        self._left[left.uid], same[left.uid] = left, None
        if len(same) <= (MOST if left.by_us else MOST_CLAIMED):
            return None
        oldest = next(iter(same))
        self.forget(oldest)
        return oldest

    def forget(self, uid: str) -> None:
        """Nothing of it is left, or it is there after all."""
        left = self._left.pop(uid, None)
        if left is None:
            return
        same = self._of[left.namespace, left.by_us]
        del same[uid]
        if not same:
            del self._of[left.namespace, left.by_us]

    def over(self, now: float) -> tuple[str, ...]:
        """The uids of those whose time is over."""
        return tuple(uid for uid, left in self._left.items() if left.until <= now)
