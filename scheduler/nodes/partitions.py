"""Slurm's partitions, asked for only when they are needed: by `page/partitions.py` and
`nodes/node_kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from slurmapi import Partition, SlurmClient


class SlurmPartitions:
    """The partitions of the last answer; `clock` is in seconds."""

    def __init__(self, client: SlurmClient, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._listed_at = float("-inf")
        self.listed: Sequence[Partition] | None = None
        """None before the first answer."""

    async def renew(self, *, older_than: float) -> None:
        """Ask Slurm unless the last answer is younger than this many seconds. Raises SlurmError."""
        if self._clock() - self._listed_at > older_than:
            self.listed = await self._client.partitions()
            self._listed_at = self._clock()
