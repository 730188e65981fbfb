"""Groups whose pods are served one by one: they are no gangs, or a policy says so."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.gang_sources import Membership, Source

# Of each namespace, for instance batch Jobs of one pod. One that is forgotten is read again, and
# may be a gang by then. So nobody else's groups push one out.
MOST_GROUPS: Final = 8192
# Deleted namespaces leave theirs behind. Those in which a group was noted last long ago go first.
MOST_NAMESPACES: Final = 1024


@dataclass(slots=True)
class _Group:
    """`instead` are sources by which its pods may belong to other gangs. `uids` are those of its
    pods that exist, if the group is to be forgotten with its last pod.
    """

    instead: tuple[Source, ...] = ()
    uids: set[str] = field(default_factory=set)


class SingleGroups:
    """A group that is known by its name alone is forgotten with its last pod, because the next one
    of that name may be a gang. Others are kept, so that each is looked at only once.
    """

    def __init__(self) -> None:
        self._groups: OrderedDict[str, OrderedDict[str, _Group]] = OrderedDict()
        self._keys: dict[str, tuple[str, str]] = {}

    def add(self, group: Membership, uids: Sequence[str], *, instead: Sequence[Source]) -> None:
        """From now on each pod of the group is served by itself, not as a part of this gang. `uids`
        are pods of it that exist. `instead` are sources by which its pods may belong to others.
        """
        groups = self._groups.setdefault(group.namespace, OrderedDict())
        self._groups.move_to_end(group.namespace)
        found = groups.setdefault(group.key, _Group())
        found.instead = tuple(instead)
        groups.move_to_end(group.key)
        for uid in uids if group.by_name else ():
            found.uids.add(uid)
            self._keys[uid] = group.namespace, group.key
        if len(groups) > MOST_GROUPS:
            self._forget([groups.popitem(last=False)[1]])
        if len(self._groups) > MOST_NAMESPACES:
            self._forget(self._groups.popitem(last=False)[1].values())

    def forget(self, group: Membership) -> None:
        """The group is a gang after all."""
        groups = self._groups.get(group.namespace, OrderedDict())
        found = groups.pop(group.key, None)
        self._forget(() if found is None else [found])
        if not groups:
            self._groups.pop(group.namespace, None)

    def _forget(self, groups: Iterable[_Group]) -> None:
        for uid in (uid for group in groups for uid in group.uids):
            del self._keys[uid]

    def instead_of(self, group: Membership) -> tuple[Source, ...] | None:
        """By which other sources its pods may belong to gangs; None if it is not served singly."""
        groups = self._groups.get(group.namespace)
        found = None if groups is None else groups.get(group.key)
        return None if found is None else found.instead

    def went(self, uid: str) -> None:
        """The pod does not exist any more."""
        namespace, key = self._keys.pop(uid, ("", ""))
        groups = self._groups.get(namespace)
        found = None if groups is None else groups.get(key)
        if groups is None or found is None:
            return
        found.uids.discard(uid)
        if not found.uids:
            del groups[key]
        if not groups:
            del self._groups[namespace]
