"""What pods ask for, read once for each version of a pod that matters, and kept for the last one
alone: a pod that is edited for ever costs no more memory than any other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, Protocol, TypeVar

MOST_READINGS: Final = 16_384
"""Pods whose reading is kept; of more, those not asked for longest are read again each time."""


class Readable(Protocol):
    """Something to be read, and what its reading depends on."""

    @property
    def key(self) -> Hashable:
        """Equal where the reading is the same."""
        ...


S = TypeVar("S", bound=Readable)
T = TypeVar("T")


class Readings(Generic[S, T]):
    """The last reading of each pod, by uid."""

    def __init__(self, read: Callable[[S], T], *, most: int = MOST_READINGS) -> None:
        self._read = read
        self._most = most
        self._kept: OrderedDict[str, tuple[Hashable, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, uid: str, spec: S) -> T:
        """What is read of it."""
        kept = self._kept.pop(uid, None)
        reading = kept[1] if kept is not None and kept[0] == spec.key else self._read(spec)
        # The newer key in any case, lest the texts of an old version of the pod be kept by it.
        self._kept[uid] = spec.key, reading
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return reading

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._kept.pop(uid, None)
