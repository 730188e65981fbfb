"""Keeps what is computed from a pod for as long as the pod does not change.

The caches never change a pod, they replace it. So whoever holds the same object has the same pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from scheduler.kube.wire import Pod

T = TypeVar("T")

MOST_KEPT: Final = 64
"""Of how many pods a result is kept, unless the owner says otherwise; the oldest result is dropped
first. One pass asks for the same results a few times, and the next pass over a pod often follows at
once, so few are enough. A pod that is gone stays in memory, with up to 192 KiB, until its result is
dropped.
"""


class OfPod(Generic[T]):
    """The last result of `compute` for each of the `most` pods that were asked about last, by
    uid.
    """

    def __init__(self, compute: Callable[[Pod], T], *, most: int = MOST_KEPT) -> None:
        self._compute = compute
        self._most = most
        self._kept: dict[str, tuple[Pod, T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __call__(self, pod: Pod) -> T:
        """The result for this pod."""
        uid = pod.metadata.uid
        kept = self._kept.get(uid)
        if kept is not None and kept[0] is pod:
            return kept[1]
        found = self._compute(pod)
        self._kept.pop(uid, None)  # the newest result comes last
        self._kept[uid] = pod, found
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return found

    def forget(self, uid: str) -> None:
        """Drop the result for this pod: the pod has changed or is gone."""
        self._kept.pop(uid, None)
