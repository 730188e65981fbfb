"""Budgets: so many at once, and then one each so many seconds; for each key of its own.

Of a key whose budget is whole again nothing is kept. Pure: the time is the caller's.

Where many wait for one budget each is told its own turn (`Turns`). Were all told when the next one
is due, all of them would come back then, for one to be let through.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# Keys that are remembered; the one that was not used for longest has its whole budget again.
MOST_KEYS: Final = 4096
# Whoever has not come so long after its turn is not waited for.
_LOST_SECONDS: Final = 60.0
_ROUNDING_SECONDS: Final = 1e-6


class Budgets(Generic[K]):
    """`burst` at once, and one more each `seconds`."""

    def __init__(self, burst: int, seconds: float, *, most_keys: int = MOST_KEYS) -> None:
        self._saved = (burst - 1) * seconds
        self._seconds = seconds
        self._most_keys = most_keys
        # When the budget of a key will be whole again, those that were used last at the end.
        self._whole_at: OrderedDict[K, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._whole_at)

    def wait(self, key: K, now: float, *, ahead: int = 0) -> float:
        """Seconds until the key may take one, after so many others `ahead`; 0 where it may now."""
        whole_at = max(self._whole_at.get(key, now), now) + ahead * self._seconds
        return max(0.0, whole_at - self._saved - now)

    def try_spend(self, key: K, now: float) -> bool:
        """Whether the key may take one now, which then counts."""
        if self.wait(key, now):
            return False
        self.take(key, now)
        return True

    def take(self, key: K, now: float) -> None:
        """One of the key's budget is used."""
        self._whole_at[key] = max(self._whole_at.pop(key, now), now) + self._seconds
        while len(self._whole_at) > self._most_keys or self._first_is_whole(now):
            self._whole_at.popitem(last=False)

    def _first_is_whole(self, now: float) -> bool:
        return next(iter(self._whole_at.values())) <= now


class Turns(Generic[K]):
    """A budget for each tenant, and the keys that wait for it, each with its turn.

    So many keys are remembered as wait; one that is not wanted any more is to `leave`.
    """

    def __init__(self, burst: int, seconds: float) -> None:
        self._budgets = Budgets[str](burst, seconds)
        # When the turn of each waiting key comes, by tenant, in the order in which they came.
        self._lines: dict[str, OrderedDict[K, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def wait(self, tenant: str, key: K, now: float) -> float:
        """Seconds until the key's turn, for which it waits in line; 0 where it may `take` now."""
        line = self._lines.get(tenant, OrderedDict())
        due = line.get(key)
        if due is not None and due > now:
            # Of those who were before it some may have left.
            sooner = self._budgets.wait(tenant, now, ahead=len(line) - 1)
            line[key] = min(due, now + sooner)
            return line[key] - now
        if due is not None and self._budgets.wait(tenant, now) < _ROUNDING_SECONDS:
            return 0.0
        line.pop(key, None)  # others were not to be kept waiting: it comes last
        while line and next(iter(line.values())) < now - _LOST_SECONDS:
            line.popitem(last=False)
        seconds = self._budgets.wait(tenant, now, ahead=len(line))
        if seconds > 0:
            line[key] = now + seconds
        self._keep(tenant, line)
        return seconds

    def take(self, tenant: str, key: K, now: float) -> None:
        """One of the tenant's budget is used, by that key."""
        self._budgets.take(tenant, now)
        self.leave(tenant, key)

    def leave(self, tenant: str, key: K) -> None:
        """The key waits no more, if it did."""
        line = self._lines.get(tenant, OrderedDict())
        line.pop(key, None)
        self._keep(tenant, line)

    def _keep(self, tenant: str, line: OrderedDict[K, float]) -> None:
        if line:
            self._lines[tenant] = line
        else:
            self._lines.pop(tenant, None)
