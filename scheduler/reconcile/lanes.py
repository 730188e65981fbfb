"""Keys that wait, in lanes by level: 0 before 1 before 2. In each lane tenants take turns, and of
one tenant's keys the first that came is the first that goes.

So a tenant who brings five thousand keys delays the next one's first by one key, and not by all. No
lane starves: where whose turn it is in a lower lane has waited for longest, and for more than
`patience_seconds`, every other key is taken from there. Pure: the time is the caller's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from operator import itemgetter
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
May = Callable[[int, Hashable], bool]
"""Whether a key of that lane and that tenant may be taken now."""


def _anybody(_level: int, _tenant: Hashable) -> bool:
    return True


class Lanes(Generic[K]):
    """Each key is in one lane at most. `tenant` tells whose a key is when it is put there."""

    def __init__(
        self, levels: int, *, patience_seconds: float, tenant: Callable[[K], Hashable]
    ) -> None:
        self._lanes: tuple[_Lane[K], ...] = tuple(_Lane() for _ in range(levels))
        self._patience_seconds = patience_seconds
        self._tenant = tenant
        self._spared = False

    def __len__(self) -> int:
        return sum(map(len, self._lanes))

    def put(self, key: K, level: int, since: float) -> bool:
        """Have the key wait in that lane, or move it there from a lower one, where it comes last of
        its tenant's; says whether it did not wait as high before.
        """
        if any(key in lane for lane in self._lanes[: level + 1]):
            return False
        for lane in self._lanes[level + 1 :]:
            lane.drop(key)
        self._lanes[level].put(key, self._tenant(key), since)
        return True

    def first(self, may: May = _anybody) -> int | None:
        """The highest lane in which a key of a tenant waits who may be served."""
        levels = range(len(self._lanes))
        return next((it for it in levels if self._since(it, may) is not None), None)

    def take(self, lowest: int, now: float, may: May = _anybody) -> K:
        """The next key from that lane or a higher one, of a tenant who may be served. Raises
        LookupError where there is none.
        """
        found = ((level, self._since(level, may)) for level in range(lowest + 1))
        waiting = [(level, since) for level, since in found if since is not None]
        if not waiting:
            raise LookupError("no key waits there")
        first, oldest = waiting[0], min(waiting, key=itemgetter(1))
        late = oldest is not first and now - oldest[1] > self._patience_seconds
        self._spared = late and not self._spared
        level, _ = oldest if self._spared else first
        return self._lanes[level].take(partial(may, level))

    def _since(self, level: int, may: May) -> float | None:
        return self._lanes[level].since(partial(may, level))


class _Lane(Generic[K]):
    """The keys of one level: tenants in the order of their turns, each with its keys."""

    def __init__(self) -> None:
        self._turns: OrderedDict[Hashable, OrderedDict[K, float]] = OrderedDict()
        self._tenants: dict[K, Hashable] = {}

    def __len__(self) -> int:
        return len(self._tenants)

    def __contains__(self, key: K) -> bool:
        return key in self._tenants

    def since(self, may: Callable[[Hashable], bool]) -> float | None:
        """Since when the next key of a tenant has waited who may be served; None where none is."""
        keys = next((keys for tenant, keys in self._turns.items() if may(tenant)), None)
        return None if keys is None else next(iter(keys.values()))

    def put(self, key: K, tenant: Hashable, since: float) -> None:
        """Last of its tenant's; a tenant who had none comes last of all."""
        self._tenants[key] = tenant
        self._turns.setdefault(tenant, OrderedDict())[key] = since

    def drop(self, key: K) -> None:
        """It waits here no more, if it did."""
        if key not in self._tenants:
            return
        tenant = self._tenants.pop(key)
        del self._turns[tenant][key]
        if not self._turns[tenant]:
            del self._turns[tenant]

    def take(self, may: Callable[[Hashable], bool]) -> K:
        """The first key of the tenant whose turn it is, of those who may be served."""
        tenant = next(filter(may, self._turns))
        keys = self._turns.pop(tenant)
        key, _ = keys.popitem(last=False)
        del self._tenants[key]
        if keys:
            self._turns[tenant] = keys
        return key
