"""Where waiting pods stand among those of their partition, as the page tells it.

The order is Slurm's: by priority, then by the id of the job. It is that of the jobs of this
scheduler's pods alone, by what Slurm has last said of each on its pod. It works only while somebody
asks, and once for all who ask at about the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from scheduler.page.board import Board
from scheduler.page.turns import ShortTurns
from scheduler.view.queue_place import MOST_PLACES, PlacesTold, QueuePlace
from scheduler.view.row import Row, State

PLACES_SECONDS: Final = 2.0
MOST_PARTITIONS_OF_A_JOB: Final = 8
_encode = msgspec.json.Encoder().encode


class QueuePlaces:
    """Makes the answers. `clock` is in seconds."""

    def __init__(self, board: Board, *, clock: Callable[[], float]) -> None:
        self._board = board
        self._clock = clock
        self._busy = asyncio.Lock()
        self._fresh_until = float("-inf")
        self._ranks: dict[str, dict[int, int]] = {}
        self._waiting: list[Row] = []
        self.ranked = 0
        """How many times the jobs were put in order."""

    async def answer(self, namespace: str, *, after: str = "") -> bytes:
        """The JSON of a PlacesTold: places in a namespace, or in all for "", by uid behind
        `after`.
        """
        async with self._busy:
            turns = ShortTurns()
            if self._clock() >= self._fresh_until:
                await self._rank(turns)
                self._fresh_until = self._clock() + PLACES_SECONDS
            return _encode(await self._made(namespace, after, turns))

    async def _rank(self, turns: ShortTurns) -> None:
        """Put the waiting jobs of each partition in order."""
        self.ranked += 1
        await self._board.refresh()
        jobs: dict[str, dict[int, int]] = {}
        waiting: list[Row] = []
        ranks: dict[str, dict[int, int]] = {}
        for row in self._board.all_rows():
            await turns.item()
            if row.job is None or not _is_told_to_wait(row):
                continue
            waiting.append(row)
            for name in _partitions(row):
                known = jobs.setdefault(name, {})
                known[row.job] = max(known.get(row.job, 0), row.priority or 0)
        for name, found in jobs.items():
            ranks[name] = {job: place for place, job in enumerate(_in_order(found), 1)}
            await turns.item()
        self._waiting, self._ranks = sorted(waiting, key=lambda row: row.uid), ranks

    async def _made(self, namespace: str, after: str, turns: ShortTurns) -> PlacesTold:
        found: list[QueuePlace] = []
        for row in self._waiting:
            await turns.item()
            if row.uid > after and namespace in {"", row.namespace}:
                if len(found) == MOST_PLACES:
                    return PlacesTold(items=tuple(found), continue_=found[-1].uid)
                found += self._best(row)
        return PlacesTold(items=tuple(found))

    def _best(self, row: Row) -> Iterable[QueuePlace]:
        """The pod's place in the partition where its job stands best."""
        if row.job is None:
            return ()
        places = [
            QueuePlace(uid=row.uid, partition=name, place=ranks[row.job], of=len(ranks))
            for name in _partitions(row)
            if row.job in (ranks := self._ranks.get(name, {}))
        ]
        return sorted(places, key=lambda it: (it.place, it.partition))[:1]


def _in_order(priorities: Mapping[int, int]) -> list[int]:
    return sorted(priorities, key=lambda job: (-priorities[job], job))


def _is_told_to_wait(row: Row) -> bool:
    """Whether the scheduler has written that Slurm has put this job into its queue. Whoever creates
    a pod may name any job in its annotations, but writes no condition.
    """
    return row.state is State.PENDING and row.message.startswith(f"Slurm job {row.job} is pending:")


def _partitions(row: Row) -> list[str]:
    """Where the job may start."""
    return [it for it in row.partition.split(",")[:MOST_PARTITIONS_OF_A_JOB] if it]
