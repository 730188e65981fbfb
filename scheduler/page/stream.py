"""Server-sent events: each browser gets the lines that have changed, and no more than it takes.

A stream sends at most CHUNK_LINES lines in a message and a message each PAUSE_SECONDS, and looks
for changes once a second. It ends after LIFE_SECONDS, when the browser does not take a message in
time, and when its viewer's rights have changed; the browser then comes back with the last cursor,
and goes on from there. How many streams may be open: `server.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
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
_CURSOR: Final = re.compile(r"([0-9a-f]{16})\.(\d{1,15})\.(\d{1,15})", re.ASCII)

Review = Callable[[], Awaitable[Viewer]]


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


class Streams:
    """Writes the board to responses. The life of its cursors is that of the process."""

    def __init__(self, board: Board, site: StreamTold) -> None:
        self._board = board
        self._site = site
        self._epoch = secrets.token_hex(16)
        self._sieve = _Sieve()

    def mark(self, viewer: Viewer) -> str:
        """Names what the viewer sees: a cursor of other rights, or of another process, is void."""
        scope = (self._epoch, viewer.everywhere, sorted(viewer.namespaces), viewer.nodes)
        return hashlib.sha256(repr(scope).encode()).hexdigest()[:16]

    async def write(
        self, response: web.StreamResponse, viewer: Viewer, *, since: str, review: Review
    ) -> None:
        """Write until the stream's life is over. Raises KubeError and CrowdError of the review, and
        TimeoutError if the browser takes nothing.
        """
        stream = _Stream(
            response, viewer, self._board, self._site, mark=self.mark(viewer), sieve=self._sieve
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
        mark: str,
        sieve: _Sieve,
    ) -> None:
        self._response = response
        self._viewer = viewer
        self._board = board
        self._site = site
        self._mark = mark
        self._sieve = sieve
        self._read = {"pods": 0, "nodes": 0}
        self._told_at = float("-inf")

    async def begin(self, since: str) -> None:
        """Say what follows: only changes if the browser has the rest, else everything."""
        found = _CURSOR.fullmatch(since)
        if found is not None and found[1] == self._mark and self._is_kept(found):
            self._read = {"pods": int(found[2]), "nodes": int(found[3])}
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
        """Write all that has changed, and how things stand, if it is time."""
        changed = await self._send("pods", self._board.pods, self._viewer.sees)
        if self._viewer.nodes:
            changed |= await self._send("nodes", self._board.nodes, lambda _scope: True)
        now = self._site.clock()
        if changed or now - self._told_at >= STATE_SECONDS:
            self._told_at = now
            await self._event("state", self._state())

    def _is_kept(self, cursor: re.Match[str]) -> bool:
        """Whether all changes after the cursor are still known."""
        ledgers = (self._board.pods, self._board.nodes)
        read = (int(cursor[2]), int(cursor[3]))
        return all(it.floor <= at <= it.version for it, at in zip(ledgers, read, strict=True))

    def _state(self) -> dict[str, Any]:
        found = {
            "cursor": f"{self._mark}.{self._read['pods']}.{self._read['nodes']}",
            "at": moment_text(datetime.now(UTC)),
            "whole": self._board.whole,
        }
        if self._viewer.nodes:
            found["nodesAge"] = self._board.nodes_age
        return found | dict(self._site.state() if self._viewer.everywhere else {})

    async def _send(self, kind: str, ledger: Ledger, sees: Callable[[str], bool]) -> bool:
        """Write the lines that have changed; returns whether there were any."""
        if self._read[kind] < ledger.floor:
            self._read[kind] = 0
            await self._event("reset", {"kind": kind})
        lines = ledger.since(self._read[kind])
        for begin in range(0, len(lines), CHUNK_LINES):
            chunk = lines[begin : begin + CHUNK_LINES]
            await self._lines(kind, await self._sieve.seen(chunk, sees))
            self._read[kind] = chunk[-1].version
        return bool(lines)

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
