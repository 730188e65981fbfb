"""Pods that vanished from the API without a report that their containers have stopped.

Their containers may still run, but nobody can be asked about them, so only what was seen before is
known. Each is forgotten when its time is over. The number for one namespace is limited, so that
pods that are created and deleted without end take a bounded amount of memory.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

MOST_BOUND: Final = 5000
"""Limit, for one namespace, of pods that we bound. Each of them had an allocation of Slurm."""
MOST_CLAIMED: Final = 500
"""Limit, for one namespace, of pods that only claim by their annotations that we bound them.
Creating such pods costs nothing.
"""


@dataclass(frozen=True, slots=True)
class Left:
    """What a pod left: containers that must have stopped at `until`. `by_us` says that we had bound
    the pod.
    """

    uid: str
    namespace: str
    name: str
    until: float
    by_us: bool


class Parted:
    """Vanished pods by uid. If a namespace has too many, those that vanished first are
    forgotten.
    """

    def __init__(self) -> None:
        self._left: dict[str, Left] = {}
        self._by_namespace: defaultdict[tuple[str, bool], dict[str, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._left)

    def get(self, uid: str) -> Left | None:
        """What that pod left; None if it is not remembered."""
        return self._left.get(uid)

    def add(self, left: Left) -> str | None:
        """Remember a vanished pod. Returns the uid of another pod that is forgotten for it; None if
        none is.
        """
        self.forget(left.uid)
        same = self._by_namespace[left.namespace, left.by_us]
        self._left[left.uid], same[left.uid] = left, None
        if len(same) <= (MOST_BOUND if left.by_us else MOST_CLAIMED):
            return None
        oldest = next(iter(same))
        self.forget(oldest)
        return oldest

    def forget(self, uid: str) -> None:
        """Forget a pod. Nothing happens if it is not remembered."""
        left = self._left.pop(uid, None)
        if left is None:
            return
        same = self._by_namespace[left.namespace, left.by_us]
        del same[uid]
        if not same:
            del self._by_namespace[left.namespace, left.by_us]

    def over(self, now: float) -> tuple[str, ...]:
        """The uids of pods whose time is over."""
        return tuple(uid for uid, left in self._left.items() if left.until <= now)
