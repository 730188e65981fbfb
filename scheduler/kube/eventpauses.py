"""Whose Events are not written for a while: those of a namespace where that fails or takes long,
and those of all where nobody can be served. Pure: the time is the caller's.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from scheduler.core.backoff import doubled
from scheduler.kube.errors import KubeError, KubeRefused, KubeUnreachable, TooMany

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 10.0
# Whoever takes longer than this is left alone for four times as long, as Slurm is: the Events of
# five such namespaces together keep one writer busy.
_SLOW_SECONDS: Final = 1.0
_SLOW_TIMES: Final = 4.0
# Of more namespaces than this those that failed first are tried again at once.
_MOST_NAMESPACES: Final = 1024


@dataclass(slots=True)
class _Pause:
    until: float = float("-inf")
    failures: int = 0


class EventPauses:
    """Pauses by namespace, and one of all. What has no more to do with them is forgotten."""

    def __init__(self) -> None:
        self._own: OrderedDict[str, _Pause] = OrderedDict()
        self._all = _Pause()
        self._failed_since: set[str] = set()

    def __len__(self) -> int:
        return len(self._own)

    @property
    def all_until(self) -> float:
        """Until when nothing is written."""
        return self._all.until

    def until(self, namespace: str) -> float:
        """Until when nothing is written there."""
        pause = self._own.get(namespace)
        return float("-inf") if pause is None else pause.until

    def next_over(self, now: float) -> float | None:
        """Seconds until the next of the pauses is over; None where there is none."""
        ends = (it.until for it in (self._all, *self._own.values()))
        return min((it - now for it in ends if it > now), default=None)

    def written(self, namespace: str, now: float, *, seconds: float) -> None:
        """An Event was written there, and took so long."""
        self._all = _Pause()
        self._failed_since.clear()
        self._own.pop(namespace, None)
        self._leave(namespace, _Pause(_slow_until(now, seconds)), now)

    def failed(self, namespace: str, now: float, *, seconds: float, error: KubeError) -> None:
        """An Event was not written there, which took so long."""
        asked = error.retry_after or 0.0
        own = self._own.pop(namespace, _Pause())
        if not error.retryable:  # this Event is tried no more, and the next one may do better
            self._leave(namespace, _Pause(_slow_until(now, seconds)), now)
            return
        until = max(now + max(_next(own), asked), _slow_until(now, seconds))
        self._leave(namespace, _Pause(until, own.failures + 1), now)
        # Several may fail at once, of which one pause comes.
        if self._concerns_all(namespace, error) and self._all.until <= now:
            self._all = _Pause(now + max(_next(self._all), asked), self._all.failures + 1)

    def _concerns_all(self, namespace: str, error: KubeError) -> bool:
        """Of an error that may be one namespace's doing two in a row say that it is not."""
        if isinstance(error, KubeRefused) and error.about_this:
            return False
        self._failed_since.add(namespace)
        return len(self._failed_since) > 1 or isinstance(error, KubeUnreachable | TooMany)

    def _leave(self, namespace: str, pause: _Pause, now: float) -> None:
        if pause.until > now:
            self._own[namespace] = pause
        while len(self._own) > _MOST_NAMESPACES:
            self._own.popitem(last=False)


def _next(pause: _Pause) -> float:
    return doubled(_FIRST_SECONDS, pause.failures, longest_seconds=_LONGEST_SECONDS)


def _slow_until(now: float, seconds: float) -> float:
    return now + _SLOW_TIMES * seconds if seconds > _SLOW_SECONDS else float("-inf")
