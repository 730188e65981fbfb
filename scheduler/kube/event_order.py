"""The order in which waiting Events are written: many Events of one tenant delay no other tenant.

Important Events come first. Among equally important ones the namespaces take turns, and within a
namespace its objects. The Events of one object keep their order. When too many wait, the namespace
with the most unimportant Events loses the one that it would write next. Important Events are lost
only when no others wait.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_Turns = OrderedDict[str, OrderedDict[str, OrderedDict[K, V]]]
_KINDS: Final = (True, False)


class EventOrder(Generic[K, V]):
    """Values by key. Each belongs to a namespace, an object (uid) and a kind: important or not."""

    def __init__(self) -> None:
        self._turns: dict[bool, _Turns[K, V]] = {kind: OrderedDict() for kind in _KINDS}
        self._places: dict[K, tuple[bool, str, str]] = {}
        self._waiting: dict[bool, Counter[str]] = {kind: Counter() for kind in _KINDS}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def put(
        self, key: K, value: V, *, namespace: str, uid: str, important: bool, first: bool = False
    ) -> None:
        """Add a value at the end of its object's queue; with `first`, before all others of its
        kind.
        """
        turns = self._turns[important]
        objects = turns.setdefault(namespace, OrderedDict())
        entries = objects.setdefault(uid, OrderedDict())
        entries[key] = value
        self._places[key] = important, namespace, uid
        self._waiting[important][namespace] += 1
        if first:
            turns.move_to_end(namespace, last=False)
            objects.move_to_end(uid, last=False)
            entries.move_to_end(key, last=False)

    def pop(self, may: Callable[[str], bool] = lambda _namespace: True) -> tuple[K, V] | None:
        """Remove and return the next key and value of a namespace for which `may` returns True;
        None if there is none.
        """
        for kind in _KINDS:
            namespace = next(filter(may, self._turns[kind]), None)
            if namespace is not None:
                return self._pop(kind, namespace)
        return None

    def drop(self) -> tuple[K, V]:
        """Remove and return the key and value whose loss matters least. Raises LookupError if none
        waits.
        """
        for kind in reversed(_KINDS):
            if self._turns[kind]:
                ((fullest, _),) = self._waiting[kind].most_common(1)
                return self._pop(kind, fullest)
        raise LookupError("no event waits")

    def _pop(self, kind: bool, namespace: str) -> tuple[K, V]:
        """Remove and return the namespace's oldest value of the object whose turn it is. Then
        object and namespace go to the end of their queues.
        """
        turns = self._turns[kind]
        objects = turns[namespace]
        uid, entries = next(iter(objects.items()))
        key, value = entries.popitem(last=False)
        del self._places[key]
        self._waiting[kind][namespace] -= 1
        objects.move_to_end(uid)
        turns.move_to_end(namespace)
        if not entries:
            del objects[uid]
        if not objects:
            del turns[namespace], self._waiting[kind][namespace]
        return key, value
