"""Slurm nodes that one unit got but could not use, and avoids for a while.

Each repetition on the same node doubles the time. None of this outlives the process: the next
process learns it again, which costs one allocation that it releases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scheduler.core.backoff import doubled

_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0
# A unit that fails on this many nodes has another problem; it may then get the oldest ones again.
_MOST: Final = 64


@dataclass(slots=True)
class _Exclusion:
    until: float
    times: int
    why: str


@dataclass(slots=True)
class Exclusions:
    """The nodes that one unit avoids."""

    _by_node: dict[str, _Exclusion] = field(default_factory=dict)

    def add(self, node: str, why: str, *, now: float) -> float:
        """Avoid the node for a while; returns for how many seconds."""
        former = self._by_node.pop(node, None)
        times = 0 if former is None else former.times + 1
        seconds = doubled(_FIRST_SECONDS, times, longest_seconds=_LONGEST_SECONDS)
        self._by_node[node] = _Exclusion(now + seconds, times, why)
        if len(self._by_node) > _MOST:
            del self._by_node[next(iter(self._by_node))]
        return seconds

    def active(self, now: float) -> dict[str, str]:
        """The nodes that must be avoided now, each with the reason."""
        return {node: it.why for node, it in self._by_node.items() if now < it.until}

    def lift(self, now: float) -> None:
        """Allow all nodes again, but remember how often each has failed."""
        for exclusion in self._by_node.values():
            exclusion.until = min(exclusion.until, now)
