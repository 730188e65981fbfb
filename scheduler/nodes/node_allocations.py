"""How much of a Slurm node is allocated now, for the few pods whose own job does not hold their
node.

A node takes two requests, and only a few nodes a second are read in all. Beyond that limit a caller
gets None, and asks again later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slurmapi import SlurmClient, SlurmNode

# One answer serves all pods of the node for this long.
_FRESH_SECONDS: Final = 5.0
_PER_SECOND: Final = 8.0
_MOST: Final = 1024


class NodeAllocations:
    """Records of nodes that are at most a few seconds old."""

    def __init__(self, client: SlurmClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[str, tuple[float, SlurmNode | None]] = {}
        self._next_at = float("-inf")

    async def of(self, name: str) -> SlurmNode | None:
        """The node's record, at most a few seconds old. None if Slurm does not know it, or if the
        limit of reads is used up: ask again later. Raises SlurmError.
        """
        now = self._clock()
        known = self._known.get(name)
        if known is not None and now - known[0] <= _FRESH_SECONDS:
            return known[1]
        if not name or now < self._next_at:
            return None
        self._next_at = now + 1.0 / _PER_SECOND
        node = await self._client.counted_node(name)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[name] = (self._clock(), node)
        return node
