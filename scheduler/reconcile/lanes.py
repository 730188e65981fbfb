"""Waiting keys, in lanes by level: 0 is served before 1, and 1 before 2. Within a lane the lines
take turns, and the keys of a line are served in the order in which they came.

A tenant has a line for each kind of key. So a tenant with five thousand keys of two kinds delays
the first key of another tenant by two keys, not by five thousand, and five thousand keys of one
kind delay the tenant's own first key of the other kind by one. No lane starves: if the key that is
next in a lower lane has waited longer than the most urgent one, and longer than its lane's
patience, every so many keys are taken from that lane. Pure: the caller passes the time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from operator import attrgetter
from typing import Final, Generic, NamedTuple, TypeVar

K = TypeVar("K", bound=Hashable)


class Patience(NamedTuple):
    """How long the next key of a lane waits behind keys of higher lanes. After `seconds` one of
    `every` keys is taken from that lane.
    """

    seconds: float
    every: int


# What is more urgent keeps most workers, however long the others wait. Otherwise pods whose jobs
# run would wait for their binds, and looks at their jobs would be out of date by then.
USUAL_PATIENCE: Final = Patience(seconds=5.0, every=4)


class TenantLine(NamedTuple):
    """Keys that are served in the order in which they came: those of one tenant and one kind."""

    tenant: Hashable
    kind: Hashable = None


May = Callable[[int, TenantLine], bool]
"""Whether a key of that level and that line may be taken now."""


def anybody(_level: int, _line: TenantLine) -> bool:
    """Every key may be taken."""
    return True


class Lanes(Generic[K]):
    """Keys, each in at most one lane. `line` returns a key's line, and is called when the key is
    put in. The lanes in `patience` have a patience of their own.
    """

    def __init__(
        self, levels: int, *, line: Callable[[K], TenantLine], patience: Mapping[int, Patience]
    ) -> None:
        self._lanes: tuple[_Lane[K], ...] = tuple(_Lane() for _ in range(levels))
        self._patience = tuple(patience.get(it, USUAL_PATIENCE) for it in range(levels))
        self._line = line
        self._late_turns = 0
        self._level_of: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._level_of)

    def put(self, key: K, level: int, since: float) -> bool:
        """Put the key into that lane, as the last of its line. A key that waits in a lower lane is
        moved up, and one that waits in this or a higher lane stays. Returns whether it was put in.
        """
        former = self._level_of.get(key)
        if former is not None and former <= level:
            return False
        line = self._line(key)
        if former is not None:
            self._lanes[former].drop(key)
        self._level_of[key] = level
        self._lanes[level].put(key, line, since)
        return True

    def is_most_urgent(self, key: K) -> bool:
        """Whether the key waits in the highest lane."""
        return self._level_of.get(key) == 0

    def first(self, levels: int, may: May = anybody) -> int | None:
        """The highest of so many lanes in which a key waits that may be taken; None if there is
        none.
        """
        for level, lane in enumerate(self._lanes[:levels]):
            if lane.next(level, may) is not None:
                return level
        return None

    def take(
        self, least_urgent: int, now: float, may: May = anybody
    ) -> tuple[K, TenantLine] | None:
        """Take the next key from the lane `least_urgent` or a higher one, of a line for which `may`
        is true. Returns the key and its line; None if there is none.
        """
        first, late = None, list[_Next]()
        for level, lane in enumerate(self._lanes[: least_urgent + 1]):
            found = lane.next(level, may)
            if found is None:
                continue
            if first is None:
                first = found
            elif found.since < first.since and now - found.since > self._patience[level].seconds:
                late.append(found)
        if first is None:
            return None
        due = [it for it in late if self._late_turns % self._patience[it.level].every == 0]
        chosen = min(due, key=_SINCE) if due else first
        self._late_turns = self._late_turns + 1 if late else 0
        key = self._lanes[chosen.level].take(chosen.line)
        del self._level_of[key]
        return key, chosen.line


class _Next(NamedTuple):
    """The line whose turn is next in a lane, and since when its first key has waited."""

    level: int
    line: TenantLine
    since: float


_SINCE: Final = attrgetter("since")


class _Lane(Generic[K]):
    """The keys of one level: lines in the order of their turns, each with its keys."""

    def __init__(self) -> None:
        self.turns: OrderedDict[TenantLine, OrderedDict[K, float]] = OrderedDict()
        self._line_of: dict[K, TenantLine] = {}

    def put(self, key: K, line: TenantLine, since: float) -> None:
        """Put the key last in its line. A line that had no key gets the last turn."""
        self._line_of[key] = line
        self.turns.setdefault(line, OrderedDict())[key] = since

    def next(self, level: int, may: May) -> _Next | None:
        """What comes next of what may be taken from this lane, which has that level."""
        for line, keys in self.turns.items():
            if may(level, line):
                return _Next(level, line, next(iter(keys.values())))
        return None

    def drop(self, key: K) -> None:
        """Remove a key that waits here."""
        line = self._line_of.pop(key)
        del self.turns[line][key]
        if not self.turns[line]:
            del self.turns[line]

    def take(self, line: TenantLine) -> K:
        """Take the first key of this line, which gets its next turn after all others."""
        keys = self.turns.pop(line)
        key, _ = keys.popitem(last=False)
        del self._line_of[key]
        if keys:
            self.turns[line] = keys
        return key
