"""Waiting keys, in lanes by level: 0 is served before 1, and 1 before 2. Within a lane the tenants
take turns, and each tenant's keys are served in the order in which they came.

So a tenant with five thousand keys delays the first key of another tenant by one key, not by five
thousand. No lane starves: if the key that is next in a lower lane has waited longest of all, and
longer than `patience_seconds`, every fourth key is taken from that lane. Pure: the caller passes
the time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from operator import itemgetter
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
# In a long burst the pods without a job have waited longest. If they got every other turn, those
# whose jobs run would wait for their binds, and looks at their jobs would be out of date by then.
_SPARED_EVERY: Final = 4
May = Callable[[int, Hashable], bool]
"""Whether a key of that level and that tenant may be taken now."""


def _anybody(_level: int, _tenant: Hashable) -> bool:
    return True


class Lanes(Generic[K]):
    """Keys, each in at most one lane. `tenant` returns a key's owner, and is called when the key is
    put in.
    """

    def __init__(
        self, levels: int, *, patience_seconds: float, tenant: Callable[[K], Hashable]
    ) -> None:
        self._lanes: tuple[_Lane[K], ...] = tuple(_Lane() for _ in range(levels))
        self._patience_seconds = patience_seconds
        self._tenant = tenant
        self._late_turns = 0
        self._level_of: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._level_of)

    def put(self, key: K, level: int, since: float) -> bool:
        """Put the key into that lane, as the last of its tenant's keys. A key that waits in a lower
        lane is moved up, and one that waits in this or a higher lane stays. Returns whether it was
        put in.
        """
        former = self._level_of.get(key)
        if former is not None and former <= level:
            return False
        tenant = self._tenant(key)
        if former is not None:
            self._lanes[former].drop(key)
        self._level_of[key] = level
        self._lanes[level].put(key, tenant, since)
        return True

    def first(self, may: May = _anybody) -> int | None:
        """The highest lane in which a key waits that may be taken; None if there is none."""
        return next((level for level, _ in self._waiting(self._lanes, may)), None)

    def take(self, least_urgent: int, now: float, may: May = _anybody) -> K:
        """Take the next key from the lane `least_urgent` or a higher one, of a tenant for
        whom `may` is true. Raises LookupError if there is none.
        """
        waiting = list(self._waiting(self._lanes[: least_urgent + 1], may))
        if not waiting:
            raise LookupError("no key waits there")
        first, oldest = waiting[0], min(waiting, key=itemgetter(1))
        late = oldest is not first and now - oldest[1] > self._patience_seconds
        spared = late and self._late_turns % _SPARED_EVERY == 0
        self._late_turns = self._late_turns + 1 if late else 0
        level, _ = oldest if spared else first
        key = self._lanes[level].take(partial(may, level))
        del self._level_of[key]
        return key

    @staticmethod
    def _waiting(lanes: Iterable[_Lane[K]], may: May) -> Iterator[tuple[int, float]]:
        """These lanes from the highest on, without those from which nothing may be taken, and since
        when the next key of each has waited.
        """
        for level, lane in enumerate(lanes):
            # Most lanes are empty most of the time.
            if lane.turns and (since := lane.since(partial(may, level))) is not None:
                yield level, since


class _Lane(Generic[K]):
    """The keys of one level: tenants in the order of their turns, each with its keys."""

    def __init__(self) -> None:
        self.turns: OrderedDict[Hashable, OrderedDict[K, float]] = OrderedDict()
        self._tenant_of: dict[K, Hashable] = {}

    def since(self, may: Callable[[Hashable], bool]) -> float | None:
        """Since when the next key that may be taken has waited; None if there is none."""
        for tenant, keys in self.turns.items():
            if may(tenant):
                return next(iter(keys.values()))
        return None

    def put(self, key: K, tenant: Hashable, since: float) -> None:
        """Put the key last among its tenant's. A tenant that had no key gets the last turn."""
        self._tenant_of[key] = tenant
        self.turns.setdefault(tenant, OrderedDict())[key] = since

    def drop(self, key: K) -> None:
        """Remove a key that waits here."""
        tenant = self._tenant_of.pop(key)
        del self.turns[tenant][key]
        if not self.turns[tenant]:
            del self.turns[tenant]

    def take(self, may: Callable[[Hashable], bool]) -> K:
        """Take the first key of the next tenant for whom `may` is true; there must be one. That
        tenant gets its next turn after all others.
        """
        tenant = next(filter(may, self.turns))
        keys = self.turns.pop(tenant)
        key, _ = keys.popitem(last=False)
        del self._tenant_of[key]
        if keys:
            self.turns[tenant] = keys
        return key
