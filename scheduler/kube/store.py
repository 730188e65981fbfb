"""The last known state of every object of one kind, by uid.

The key is the uid and not the name, because a recreated pod with the same name is another pod. The
store is used on one event loop and does no I/O. Only the reflector writes it; all others read.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from groundwork.pauses import in_slices


class ObjectMetadata(Protocol):
    """What distinguishes an object from others, and its states from each other."""

    @property
    def uid(self) -> str:
        """An id that is never used again."""
        ...

    @property
    def namespace(self) -> str:
        """ "" for an object without a namespace."""
        ...

    @property
    def name(self) -> str:
        """A name that at most one object has at a time."""
        ...

    @property
    def resource_version(self) -> str:
        """A version that differs after each change."""
        ...


class Named(Protocol):
    """Any object with Kubernetes metadata."""

    @property
    def metadata(self) -> ObjectMetadata:
        """The object's identity."""
        ...


T = TypeVar("T", bound=Named)


class Change(NamedTuple, Generic[T]):
    """How one object has changed. `new` is None if it is gone, `old` is None if it is new."""

    old: T | None
    new: T | None


class Store(Generic[T]):
    """Objects by uid, with an index by namespace and name (at most one holds a name at a time)."""

    def __init__(self) -> None:
        self.items: dict[str, T] = {}
        """By uid. Only a store itself writes it."""
        self._uids: dict[str, dict[str, str]] = {}  # by namespace and name
        self.resource_version = ""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self.items.values()))

    def __contains__(self, uid: object) -> bool:
        return uid in self.items

    def get(self, uid: str) -> T | None:
        """The object with this uid; None if there is none."""
        return self.items.get(uid)

    def by_name(self, name: str) -> T | None:
        """The object without a namespace that has this name now; None if there is none."""
        uid = self._uids.get("", {}).get(name)
        return None if uid is None else self.items.get(uid)

    def in_namespace(self, namespace: str) -> tuple[T, ...]:
        """All objects of the namespace, as a snapshot."""
        uids = self._uids.get(namespace, {}).values()
        return tuple([self.items[uid] for uid in uids if uid in self.items])

    def values(self) -> tuple[T, ...]:
        """All objects, as a snapshot."""
        return tuple(self.items.values())

    def uids(self) -> tuple[str, ...]:
        """All uids, as a snapshot."""
        return tuple(self.items)

    def apply(self, item: T) -> tuple[Change[T], ...]:
        """Store a newer state of an object. If another object had its name, that one is removed."""
        meta = item.metadata
        names = self._uids.get(meta.namespace, {})
        holder = names.get(meta.name)
        former = () if holder in (None, meta.uid) else self.remove(str(holder))
        old = self.items.get(meta.uid)
        self.items[meta.uid] = item
        self._uids.setdefault(meta.namespace, names)[meta.name] = meta.uid
        return (*former, Change(old, item))

    def remove(self, uid: str, *, last: T | None = None) -> tuple[Change[T], ...]:
        """Remove an object; `last` is its final state if the server sent it."""
        old = self.items.pop(uid, None)
        if old is None:
            return ()
        namespace, name = old.metadata.namespace, old.metadata.name
        names = self._uids.get(namespace, {})
        if names.get(name) == uid:
            del names[name]
            if not names:
                del self._uids[namespace]
        return (Change(last or old, None),)

    def replace(self, items: Iterable[T]) -> list[Change[T]]:
        """Replace all objects by a complete list, and return the changes."""
        return [change for changes in self.replacing(items) for change in changes]

    def replacing(self, items: Iterable[T]) -> Iterator[tuple[Change[T], ...]]:
        """Replace all objects by a complete list, one with each step, which yields its changes.
        Objects that are not in the list are removed first. An object with the same resourceVersion
        is no change.
        """
        listed = {item.metadata.uid: item for item in items}
        for uid in [uid for uid in self.items if uid not in listed]:
            yield self.remove(uid)
        for item in listed.values():
            yield () if self._holds(item) else self.apply(item)

    def _holds(self, item: T) -> bool:
        known = self.items.get(item.metadata.uid)
        version = item.metadata.resource_version
        return known is not None and bool(version) and known.metadata.resource_version == version


class Joined(Generic[T]):
    """Several stores of one kind, read as one. Each reflector writes only its own store."""

    def __init__(self) -> None:
        self._stores: list[Store[T]] = []

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def __contains__(self, uid: object) -> bool:
        return any(uid in store for store in self._stores)

    def __iter__(self) -> Iterator[T]:
        """All objects."""
        return (item for store in self._stores for item in store)

    async def with_pauses(self, namespace: str | None = None) -> AsyncGenerator[T]:
        """All objects, or those of the namespace, with turns for other tasks in between. The watch
        may change objects there: each comes as it is when its turn comes, and those that are gone
        by then are left out.
        """
        items = self if namespace is None else self.in_namespace(namespace)
        async for uid in in_slices([item.metadata.uid for item in items]):
            if (item := self.get(uid)) is not None:
                yield item

    def in_namespace(self, namespace: str) -> Iterator[T]:
        """All objects of the namespace."""
        return (item for store in self._stores for item in store.in_namespace(namespace))

    def new(self) -> Store[T]:
        """Add an empty store and return it. From now on it is read together with the others."""
        store = Store[T]()
        self._stores.append(store)
        return store

    def get(self, uid: str) -> T | None:
        """The object with this uid; None if there is none."""
        for store in self._stores:
            if item := store.items.get(uid):
                return item
        return None
