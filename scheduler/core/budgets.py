"""Budgets for each key: a burst at once, and then one in this many seconds.

A key whose budget is full again is forgotten. Pure: the caller passes the time.

If many keys wait for one budget, `Turns` gives each its own turn. If all got the time of the next
turn, all would come back then, and only one could spend. Where tenants share a budget, they take
turns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

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


class _Place(NamedTuple):
    """Where a key stands in its line, and when it is to come back."""

    number: int
    """One more than that of the key before it. Some keys between the first and it may have left."""
    due: float


class Turns(Generic[K]):
    """A budget for each tenant, and the keys that wait for it.

    Where a budget is shared, `line` says for whom a key waits. The lines of a budget take turns. So
    the first key of a line waits for one key of each other line at most, however long they are. A
    line that begins anew gets the last turn.

    The keys in line are remembered without limit, so a key that is no longer wanted must `leave`.
    """

    def __init__(self, burst: int, seconds: float) -> None:
        self._budgets = Budgets[str](burst, seconds)
        # By tenant: the lines, that which has the next turn first, and the keys in order of
        # arrival.
        self._lines: dict[str, dict[str, OrderedDict[K, _Place]]] = {}

    def __len__(self) -> int:
        return sum(len(line) for lines in self._lines.values() for line in lines.values())

    def wait(self, tenant: str, key: K, now: float, *, line: str = "") -> float:
        """Put the key in line. Returns the seconds after which it is to come back: its turn, unless
        other lines begin before that; or 0 if it may `take` now.
        """
        lines = self._lines.setdefault(tenant, {})
        _drop_lost(lines, now)
        keys = lines.get(line, OrderedDict())
        seconds = self._budgets.wait(tenant, now, ahead=_ahead(lines, line, key))
        if seconds < _ROUNDING_SECONDS:
            seconds = 0.0
        place = keys.get(key)
        if place is not None:
            keys[key] = place._replace(due=now + seconds)
        elif seconds:
            last = next(reversed(keys.values()), None)
            keys[key] = _Place(0 if last is None else last.number + 1, now + seconds)
            lines[line] = keys
        if not lines:
            del self._lines[tenant]
        return seconds

    def take(self, tenant: str, key: K, now: float, *, line: str = "") -> None:
        """Charge the tenant's budget by one, for this key."""
        self._budgets.take(tenant, now)
        self.leave(tenant, key, line=line)
        lines = self._lines.get(tenant, {})
        if line in lines:
            lines[line] = lines.pop(line)  # its next turn comes after those of all others

    def leave(self, tenant: str, key: K, *, line: str = "") -> None:
        """Remove the key from its line, if it waits."""
        lines = self._lines.get(tenant, {})
        keys = lines.get(line, OrderedDict())
        keys.pop(key, None)
        if not keys:
            lines.pop(line, None)
        if not lines:
            self._lines.pop(tenant, None)


def _ahead(lines: Mapping[str, Mapping[K, _Place]], line: str, key: K) -> int:
    """How many keys at most have their turn before this one, which may be about to come."""
    keys = lines.get(line, {})
    before = len(keys)
    if key in keys:
        first = next(iter(keys.values()))
        before = min(before - 1, keys[key].number - first.number)
    ahead = before
    of_each = before + 1
    for name, others in lines.items():
        if name == line:
            of_each = before  # the lines that come after this one
        else:
            ahead += min(len(others), of_each)
    return ahead


def _drop_lost(lines: dict[str, OrderedDict[K, _Place]], now: float) -> None:
    """Forget the keys that lead a line and have not come back in time after their turn."""
    for name, keys in tuple(lines.items()):
        while keys and keys[first := next(iter(keys))].due < now - _LOST_SECONDS:
            del keys[first]
        if not keys:
            del lines[name]
