"""Caches the requests of pods. Only the last reading of each pod is kept, so a pod that is edited
again and again takes no more memory than any other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, Protocol, TypeVar

MOST_READINGS: Final = 16_384
"""How many readings are kept. If there are more pods, those whose readings were not used for
longest are read again.
"""


T = TypeVar("T")


class Readable(Protocol):
    """Something that can be read, with the key that its reading depends on."""

    @property
    def key(self) -> Hashable:
        """Two readings of one kind are the same if their keys are equal."""
        ...

    def takes(self, reading: Any) -> bool:
        """Whether a reading of something with the same key is of the right kind."""
        ...


S = TypeVar("S", bound=Readable)


class Readings(Generic[S, T]):
    """The last reading of each pod, by uid."""

    def __init__(self, read: Callable[[S], T]) -> None:
        self._read = read
        self._kept: OrderedDict[str, tuple[Hashable, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, uid: str, spec: S) -> T:
        """The reading of `spec`."""
        kept = self._kept.pop(uid, None)
        known = kept is not None and kept[0] == spec.key and spec.takes(kept[1])
        reading = kept[1] if kept is not None and known else self._read(spec)
        # Always keep the newer key, because the former one holds texts of an old version of the
        # pod.
        self._kept[uid] = spec.key, reading
        if len(self._kept) > MOST_READINGS:
            self._kept.popitem(last=False)
        return reading

    def forget(self, uid: str) -> None:
        """Drop the reading of a pod that is gone."""
        self._kept.pop(uid, None)
