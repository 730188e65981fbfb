"""Where waiting pods stand among those of their partition, as the page tells it.

The order is Slurm's: by priority, then by the id of the job. It is that of the jobs of this
scheduler's pods alone, by what Slurm has last said of each on its pod. It works only while somebody
asks, and once for all who ask at about the same time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from scheduler.page.board import Board
from scheduler.page.turns import ShortTurns, TurnsInTurn
from scheduler.view.queue_place import MOST_QUEUE_PLACES, PlacesTold, QueuePlace
from scheduler.view.row import Row, State

PLACES_SECONDS: Final = 2.0
MOST_PARTITIONS_OF_A_JOB: Final = 8
_encode = msgspec.json.Encoder().encode


class QueuePlaces:
    """Makes the answers. `answers` are the turns of all who answer such questions, and `clock` is
    in seconds.
    """

    def __init__(self, board: Board, *, answers: TurnsInTurn, clock: Callable[[], float]) -> None:
        self._board = board
        self._clock = clock
        self._answers = answers
        self._fresh_until = float("-inf")
        self._places: dict[str, list[QueuePlace]] = {}
        self.ranked = 0
        """How many times the jobs were put in order."""

    async def answer(self, namespace: str, *, after: str = "") -> bytes:
        """The JSON of a PlacesTold: places in a namespace, or in all for "", by uid behind
        `after`.
        """
        async with self._answers.next() as turns:
            if self._clock() >= self._fresh_until:
                await self._rank(turns)
                self._fresh_until = self._clock() + PLACES_SECONDS
            return _encode(self._told(namespace, after))

    async def _rank(self, turns: ShortTurns) -> None:
        """Put the waiting jobs of each partition in order. What is shown are the places by uid, of
        each namespace and of all.
        """
        self.ranked += 1
        await self._board.refresh()
        jobs: dict[str, dict[int, int]] = {}
        waiting: list[tuple[Row, int]] = []
        for row in self._board.all_rows():
            await turns.item()
            if row.job is None or not _is_told_to_wait(row):
                continue
            waiting.append((row, row.job))
            for name in _partitions(row):
                known = jobs.setdefault(name, {})
                known[row.job] = max(known.get(row.job, 0), row.priority or 0)
        ranks: dict[str, dict[int, int]] = {}
        for name, found in jobs.items():
            ranks[name] = {job: place for place, job in enumerate(_in_order(found), 1)}
            await turns.item()
        places: list[tuple[str, QueuePlace]] = []
        for row, job in waiting:
            await turns.item()
            # Where it stands best, if it may start in several partitions.
            for place, name in sorted((ranks[it][job], it) for it in _partitions(row))[:1]:
                best = QueuePlace(uid=row.uid, partition=name, place=place, of=len(ranks[name]))
                places.append((row.namespace, best))
        places.sort(key=lambda it: it[1].uid)
        self._places = {"": [shown for _, shown in places]}
        for namespace, shown in places:
            self._places.setdefault(namespace, []).append(shown)
            await turns.item()

    def _told(self, namespace: str, after: str) -> PlacesTold:
        places = self._places.get(namespace, [])
        begin = bisect_right(places, after, key=_uid)
        found = tuple(places[begin : begin + MOST_QUEUE_PLACES])
        more = len(places) > begin + len(found)
        return PlacesTold(items=found, continue_=found[-1].uid if more else "")


def _uid(place: QueuePlace) -> str:
    return place.uid


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
