"""Slurm nodes that one unit was given and could not use: it asks for others for a while.

Each further time on the same node doubles the pause. Nothing here outlives the process: a next one
learns again, at the price of one allocation that is given back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from scheduler.core.backoff import doubled

_FIRST_SECONDS: Final = 60.0
_LONGEST_SECONDS: Final = 3600.0
# Who was refused by so many nodes has trouble of another kind; the oldest are asked for again.
_MOST: Final = 64


@dataclass(slots=True)
class _Exclusion:
    until: float
    times: int
    why: str


@dataclass(slots=True)
class Exclusions:
    """The nodes one unit stays away from."""

    _by_node: dict[str, _Exclusion] = field(default_factory=dict)

    def add(self, node: str, why: str, *, now: float) -> float:
        """Stay away from the node; gives the seconds for which."""
        former = self._by_node.pop(node, None)
        times = 0 if former is None else former.times + 1
        seconds = doubled(_FIRST_SECONDS, times, longest_seconds=_LONGEST_SECONDS)
        self._by_node[node] = _Exclusion(now + seconds, times, why)
        if len(self._by_node) > _MOST:
            del self._by_node[next(iter(self._by_node))]
        return seconds

    def active(self, now: float) -> dict[str, str]:
        """Node and reason of those that still hold."""
        return {node: it.why for node, it in self._by_node.items() if now < it.until}

    def lift(self, now: float) -> None:
        """All nodes may be had again; how often each failed is remembered."""
        for exclusion in self._by_node.values():
            exclusion.until = min(exclusion.until, now)
