"""Server-sent events: each browser gets the lines that have changed, and no more than it takes.

A stream sends at most CHUNK_LINES lines in a message and a message each PAUSE_SECONDS, and looks
for changes once a second. It ends after LIFE_SECONDS, when the browser does not take a message in
time, and when its viewer's rights have changed; the browser then comes back with the last cursor,
and goes on from there. How many streams may be open: `server.py`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from aiohttp import web

from scheduler.page.access import Viewer
from scheduler.page.board import REFRESH_SECONDS, Board
from scheduler.page.ledger import Ledger, Line
from scheduler.page.turns import ShortTurns
from scheduler.view.printing import moment_text

CHUNK_LINES: Final = 200
PAUSE_SECONDS: Final = 0.05
LIFE_SECONDS: Final = 600.0
REVIEW_SECONDS: Final = 60.0
WRITE_SECONDS: Final = 10.0
STATE_SECONDS: Final = 5.0
MOST_CURSORS: Final = 10_000
"""Each takes below 500 bytes. 100 streams write at most as many in 100 s."""

Review = Callable[[], Awaitable[Viewer]]
_Rights = tuple[bool, frozenset[str], bool]


@dataclass(frozen=True, slots=True)
class StreamTold:
    """What all streams tell. `state` are facts about the process, for those who see everything."""

    scheduler_name: str
    state: Callable[[], Mapping[str, Any]]
    clock: Callable[[], float]


class _Sieve:
    """Picks the lines that a viewer sees: for one stream after the other, in short turns. Who sees
    few of very many lines has nothing to write between them.
    """

    def __init__(self) -> None:
        self._busy = asyncio.Lock()
        self._turns = ShortTurns()

    async def seen(self, lines: Iterable[Line], sees: Callable[[str], bool]) -> list[Line]:
        """Those of the lines that are seen."""
        async with self._busy:
            found = [it for it in lines if sees(it.scope)]
            await self._turns.part()
        return found


class _Cursors:
    """How far streams have read, by names that say nothing: the versions count the changes in all
    namespaces. The newest are kept, so that a browser that comes back soon goes on from there.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[_Rights, dict[str, int]]] = OrderedDict()

    def name(self, read: Mapping[str, int], *, by: Viewer) -> str:
        """A new name for how far this viewer has read each ledger."""
        name = secrets.token_hex(16)
        self._kept[name] = (_rights(by), dict(read))
        if len(self._kept) > MOST_CURSORS:
            self._kept.popitem(last=False)
        return name

    def read(self, name: str, *, by: Viewer) -> dict[str, int] | None:
        """How far that is; None if nobody with the same rights has got the name, or not lately."""
        rights, read = self._kept.get(name, (None, {}))
        return dict(read) if rights == _rights(by) else None


def _rights(viewer: Viewer) -> _Rights:
    """What the viewer sees."""
    return viewer.everywhere, viewer.namespaces, viewer.nodes


class Streams:
    """Writes the board to responses. The life of its cursors is that of the process."""

    def __init__(self, board: Board, site: StreamTold) -> None:
        self._board = board
        self._site = site
        self._sieve = _Sieve()
        self._cursors = _Cursors()

    async def write(
        self, response: web.StreamResponse, viewer: Viewer, *, since: str, review: Review
    ) -> None:
        """Write until the stream's life is over. Raises KubeError and CrowdError of the review, and
        TimeoutError if the browser takes nothing.
        """
        stream = _Stream(
            response,
            viewer,
            self._board,
            self._site,
            sieve=self._sieve,
            cursors=self._cursors,
        )
        await stream.begin(since)
        ends = self._site.clock() + LIFE_SECONDS
        reviewed = self._site.clock()
        while self._site.clock() < ends:
            await self._board.refresh()
            await stream.catch_up()
            await asyncio.sleep(REFRESH_SECONDS)
            if self._site.clock() - reviewed >= REVIEW_SECONDS:
                reviewed = self._site.clock()
                if await review() != viewer:
                    return


class _Stream:
    """One response, and what has been written to it."""

    def __init__(
        self,
        response: web.StreamResponse,
        viewer: Viewer,
        board: Board,
        site: StreamTold,
        *,
        sieve: _Sieve,
        cursors: _Cursors,
    ) -> None:
        self._response = response
        self._viewer = viewer
        self._board = board
        self._site = site
        self._sieve = sieve
        self._cursors = cursors
        self._read = {"pods": 0, "nodes": 0}
        self._told_at = float("-inf")

    async def begin(self, since: str) -> None:
        """Say what follows: only changes if the browser has the rest, else everything."""
        read = self._cursors.read(since, by=self._viewer)
        if read is not None and self._is_kept(read):
            self._read = read
        await self._event(
            "hello",
            {
                "goesOn": any(self._read.values()),
                "scheduler": self._site.scheduler_name,
                "user": self._viewer.name,
                "everywhere": self._viewer.everywhere,
                "namespaces": len(self._viewer.namespaces),
                "partial": self._viewer.partial,
                "nodes": self._viewer.nodes,
            },
        )

    async def catch_up(self) -> None:
        """Write all that the viewer sees of what has changed. Then, or if it is time, write how
        things stand.
        """
        changed = await self._send("pods", self._board.pods, self._viewer.sees)
        if self._viewer.nodes:
            changed |= await self._send("nodes", self._board.nodes, lambda _scope: True)
        now = self._site.clock()
        if changed or now - self._told_at >= STATE_SECONDS:
            self._told_at = now
            await self._event("state", self._state())

    def _is_kept(self, read: Mapping[str, int]) -> bool:
        """Whether all changes after that are still known."""
        ledgers = {"pods": self._board.pods, "nodes": self._board.nodes}
        return all(it.floor <= read[kind] <= it.version for kind, it in ledgers.items())

    def _state(self) -> dict[str, Any]:
        found = {
            "cursor": self._cursors.name(self._read, by=self._viewer),
            "at": moment_text(datetime.now(UTC)),
            "whole": self._board.whole,
        }
        if self._viewer.nodes:
            found["nodesAge"] = self._board.nodes_age
        return found | dict(self._site.state() if self._viewer.everywhere else {})

    async def _send(self, kind: str, ledger: Ledger, sees: Callable[[str], bool]) -> bool:
        """Write the lines that have changed and are seen; returns whether there were any."""
        if self._read[kind] < ledger.floor:
            self._read[kind] = 0
            await self._event("reset", {"kind": kind})
        lines, any_seen = ledger.since(self._read[kind]), False
        for begin in range(0, len(lines), CHUNK_LINES):
            chunk = lines[begin : begin + CHUNK_LINES]
            seen = await self._sieve.seen(chunk, sees)
            await self._lines(kind, seen)
            self._read[kind] = chunk[-1].version
            any_seen = any_seen or bool(seen)
        return any_seen

    async def _lines(self, kind: str, lines: Iterable[Line]) -> None:
        data = b",".join(it.data for it in lines)
        if data:
            await self._write(b"event: %s\ndata: [%s]\n\n" % (kind.encode(), data))
            await asyncio.sleep(PAUSE_SECONDS)

    async def _event(self, kind: str, data: object) -> None:
        await self._write(b"event: %s\ndata: %s\n\n" % (kind.encode(), msgspec.json.encode(data)))

    async def _write(self, data: bytes) -> None:
        async with asyncio.timeout(WRITE_SECONDS):
            await self._response.write(data)
