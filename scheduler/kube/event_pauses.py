"""Pauses in writing Events, for one namespace or for all.

A namespace pauses if writing its Events fails or takes long. All pause if the API server can serve
none of them. Pure: the caller passes the time. The pace of Events is in `recorder.py`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from scheduler.core.backoff import doubled
from scheduler.kube.errors import KubeError, KubeRefused, KubeUnreachable, TooMany

_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 10.0
# If writing an Event takes longer than this, its namespace pauses for four times as long. So the
# Events of five such namespaces together keep only one writer busy, and the more the API server has
# to do, the fewer Events it gets.
_SLOW_SECONDS: Final = 0.1
_SLOW_TIMES: Final = 4.0
# The number of pauses that are kept. Beyond it the oldest pauses end at once.
_MOST_NAMESPACES: Final = 1024


@dataclass(slots=True)
class _Pause:
    until: float = float("-inf")
    failures: int = 0


class EventPauses:
    """Pauses by namespace, and one for all. A namespace that needs no pause is not kept."""

    def __init__(self) -> None:
        self._own: OrderedDict[str, _Pause] = OrderedDict()
        self._all = _Pause()
        self._failed_since: set[str] = set()

    def __len__(self) -> int:
        return len(self._own)

    @property
    def all_until(self) -> float:
        """The time until which no Event is written."""
        return self._all.until

    def until(self, namespace: str) -> float:
        """The time until which no Event of that namespace is written."""
        pause = self._own.get(namespace)
        return float("-inf") if pause is None else pause.until

    def next_over(self, now: float) -> float | None:
        """Seconds until the next pause is over; None if there is none."""
        ends = (it.until for it in (self._all, *self._own.values()))
        return min((it - now for it in ends if it > now), default=None)

    def written(self, namespace: str, now: float, *, seconds: float) -> None:
        """Note that writing an Event of that namespace succeeded after `seconds`."""
        self._all = _Pause()
        self._failed_since.clear()
        self._own.pop(namespace, None)
        self._leave(namespace, _Pause(_slow_until(now, seconds)), now)

    def failed(self, namespace: str, now: float, *, seconds: float, error: KubeError) -> None:
        """Note that writing an Event of that namespace failed after `seconds`."""
        asked = error.retry_after or 0.0
        own = self._own.pop(namespace, _Pause())
        if not error.retryable:  # this Event is not tried again, and the next may succeed
            self._leave(namespace, _Pause(_slow_until(now, seconds)), now)
            return
        until = max(now + max(_next(own), asked), _slow_until(now, seconds))
        self._leave(namespace, _Pause(until, own.failures + 1), now)
        # Writes that fail at the same time cause one pause, not several.
        if self._concerns_all(namespace, error) and self._all.until <= now:
            self._all = _Pause(now + max(_next(self._all), asked), self._all.failures + 1)

    def _concerns_all(self, namespace: str, error: KubeError) -> bool:
        """Note the failure, and say whether all namespaces must pause: at once if the API server
        cannot be reached or is overloaded; for an error that a single namespace may cause, once it
        happens in a second one with no Event written in between.
        """
        if isinstance(error, KubeRefused) and error.concerns_this_request:
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
