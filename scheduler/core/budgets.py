"""Budgets for each key: a burst at once, and then one in this many seconds.

A key whose budget is full again is forgotten. Pure: the caller passes the time.

If many keys wait for one budget, `Turns` gives each its own turn. If all got the time of the next
turn, all would come back then, and only one could spend.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

# How many keys are remembered. Beyond that, the key that was not used for longest gets a full
# budget.
MOST_KEYS: Final = 4096
# A key that has not come back this long after its turn loses its place.
_LOST_SECONDS: Final = 60.0
_ROUNDING_SECONDS: Final = 1e-6


class Budgets(Generic[K]):
    """A budget of `burst` at once, and one more each `seconds`."""

    def __init__(self, burst: int, seconds: float) -> None:
        self._saved = (burst - 1) * seconds
        self._seconds = seconds
        # When each key's budget is full again; the last used is at the end.
        self._whole_at: OrderedDict[K, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._whole_at)

    def wait(self, key: K, now: float, *, ahead: int = 0) -> float:
        """Seconds until the key may take one, after `ahead` others; 0 if it may now."""
        whole_at = max(self._whole_at.get(key, now), now) + ahead * self._seconds
        return max(0.0, whole_at - self._saved - now)

    def try_spend(self, key: K, now: float) -> bool:
        """Take one, if the key may now. Returns whether it did."""
        if self.wait(key, now):
            return False
        self.take(key, now)
        return True

    def take(self, key: K, now: float) -> None:
        """Charge the key's budget by one."""
        self._whole_at[key] = max(self._whole_at.pop(key, now), now) + self._seconds
        while len(self._whole_at) > MOST_KEYS or self._first_is_whole(now):
            self._whole_at.popitem(last=False)

    def _first_is_whole(self, now: float) -> bool:
        return next(iter(self._whole_at.values())) <= now


class Turns(Generic[K]):
    """A budget for each tenant, and the keys that wait for it in line.

    The keys in line are remembered without limit, so a key that is no longer wanted must `leave`.
    """

    def __init__(self, burst: int, seconds: float) -> None:
        self._budgets = Budgets[str](burst, seconds)
        # The turn of each waiting key by tenant, in order of arrival.
        self._lines: dict[str, OrderedDict[K, float]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def wait(self, tenant: str, key: K, now: float) -> float:
        """Put the key in line. Returns the seconds until its turn, or 0 if it may `take` now."""
        line = self._lines.get(tenant, OrderedDict())
        due = line.get(key)
        if due is not None and due > now:
            # Some keys before it may have left.
            sooner = self._budgets.wait(tenant, now, ahead=len(line) - 1)
            line[key] = min(due, now + sooner)
            return line[key] - now
        if due is not None and self._budgets.wait(tenant, now) < _ROUNDING_SECONDS:
            return 0.0
        line.pop(key, None)  # it was late or others took the budget: it goes to the end
        while line and next(iter(line.values())) < now - _LOST_SECONDS:
            line.popitem(last=False)
        seconds = self._budgets.wait(tenant, now, ahead=len(line))
        if seconds > 0:
            line[key] = now + seconds
        self._keep(tenant, line)
        return seconds

    def take(self, tenant: str, key: K, now: float) -> None:
        """Charge the tenant's budget by one, for this key."""
        self._budgets.take(tenant, now)
        self.leave(tenant, key)

    def leave(self, tenant: str, key: K) -> None:
        """Remove the key from the line, if it waits."""
        line = self._lines.get(tenant, OrderedDict())
        line.pop(key, None)
        self._keep(tenant, line)

    def _keep(self, tenant: str, line: OrderedDict[K, float]) -> None:
        if line:
            self._lines[tenant] = line
        else:
            self._lines.pop(tenant, None)
