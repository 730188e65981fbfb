"""A bounded HTTP listener, used for every port that we open, with or without TLS.

The number of connections is limited, and so is the time each may last, whatever its caller does. A
connection is counted when it is accepted, before anything is allocated for it, and serves one
request.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from scheduler.config.settings import Address
from scheduler.listen.acceptor import Acceptor
from scheduler.listen.descriptors import descriptors
from scheduler.listen.door import Door, Terms
from scheduler.listen.places import Capacity, ConnectionPlaces, block_of

HOOKS: Final = Capacity(connections=2048, strangers=1024)
"""A request that waits for an answer holds its connection: 512 of each of the two kinds may wait,
and the rest are places for requests that are answered at once.
"""
HOOKS_TLS: Final = Capacity(connections=1280, strangers=256)
"""Fewer than without TLS, because each costs 300 KiB (measured). Most of that is a buffer that
asyncio allocates at once.
"""
FACE: Final = Capacity(connections=256, strangers=256)
"""For probes and metrics, which come one at a time and are answered at once."""
PAGE: Final = Capacity(connections=256, strangers=128)
"""For the live page: its streams hold their connections, and all else is answered at once."""
HANDSHAKE_SECONDS: Final = 5.0
# By then the caller must have sent the head of its request, with a token that we know.
STRANGER_SECONDS: Final = 10.0
# The longest wait for an answer, plus the time to send the body and to receive the answer.
KNOWN_SECONDS: Final = 75.0
# These limits keep the request head of one connection below 32 times 4 KiB.
MOST_FIELDS: Final = 32
LONGEST_FIELD: Final = 4096
_STOP_SECONDS: Final = 0.5
# After an answer, the rest of a body is not waited for. aiohttp would read and parse what comes
# in one turn of the loop, as long as there is more.
_LINGER_SECONDS: Final = 0.0
ERROR_LINES: Final = 10
_ERROR_LINES_SECONDS: Final = 60.0


class Listener:
    """Serves one application. A caller that has not become `known` within `stranger_seconds` is
    disconnected; `handshake_seconds` are for the TLS handshake. One that is known is disconnected
    after `known_seconds`.
    """

    def __init__(
        self,
        capacity: Capacity,
        *,
        stranger_seconds: float,
        handshake_seconds: float,
        known_seconds: float = KNOWN_SECONDS,
    ) -> None:
        self._known_seconds = known_seconds
        self._loop = asyncio.get_running_loop()
        self.places = ConnectionPlaces(capacity.within(descriptors()), clock=self._loop.time)
        self._terms = Terms(stranger_seconds, handshake_seconds, tls=None)
        self._acceptor = Acceptor(self._came)
        self._open: set[Door] = set()
        self._doors: dict[object, Door] = {}
        self._runner: web.AppRunner | None = None

    async def open(
        self, app: web.Application, address: Address, *, tls: ssl.SSLContext | None = None
    ) -> int:
        """Listen on the address; returns the port. Raises OSError if the address cannot be
        bound.
        """
        self._terms = replace(self._terms, tls=tls)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_STOP_SECONDS,
            lingering_time=_LINGER_SECONDS,
            handler_cancellation=True,
            # A body that nobody reads would be unpacked on the loop, a thousand bytes for each.
            auto_decompress=False,
            max_line_size=LONGEST_FIELD,
            max_field_size=LONGEST_FIELD,
            max_headers=MOST_FIELDS,
            logger=_few_lines(self._loop.time),
        )
        await self._runner.setup()
        return await self._acceptor.open(address)

    def know(self, connection: object) -> None:
        """The caller on this connection has shown a token, and may wait for its answer."""
        door = self._doors.get(connection)
        if door is not None:
            self.places.know(door)
            door.cut_after(self._known_seconds)

    async def close(self) -> None:
        """Stop listening, and close all connections. Callers that wait ask the next process."""
        self._acceptor.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for door in tuple(self._open):
            door.cut()

    def speaks(self, door: Door) -> web.RequestHandler | None:
        """The handler of this connection's requests; None if we are closing."""
        server = None if self._runner is None else self._runner.server
        if server is None:
            return None
        self._acceptor.speaks()
        handler = server()
        self._doors[handler] = door
        return handler

    def left(self, door: Door, handler: object) -> None:
        """The connection has ended."""
        self._open.discard(door)
        self.places.leave(door)
        self._doors.pop(handler, None)

    def _came(self, connection: socket.socket, host: str) -> None:
        """A connection was accepted. It must get a place before anything is allocated for it."""
        door = Door(self, connection, address=block_of(host), terms=self._terms)
        if self.places.enter(door):
            self._open.add(door)
            door.wait()
        else:
            door.refuse()


@web.middleware
async def one_request(
    request: web.Request, handler: Callable[[web.Request], Any]
) -> web.StreamResponse:
    """Close each connection after its first request, so that its longest life is known."""
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as error:
        error.force_close()
        raise
    response.force_close()
    return response


def _few_lines(clock: Callable[[], float]) -> logging.Logger:
    """A logger for aiohttp that drops most lines. aiohttp logs a traceback for each request that it
    cannot parse, so a flood could fill disks.
    """
    logger = logging.Logger("scheduler.listener", logging.WARNING)  # noqa: LOG001 - has a filter
    logger.parent = logging.getLogger()
    logger.addFilter(_Few(clock))
    return logger


class _Few(logging.Filter):
    """Lets the first lines of each minute pass."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._since = float("-inf")
        self._lines = 0

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - logging's signature
        """Whether the line is one of the first of its minute."""
        now = self._clock()
        if now - self._since >= _ERROR_LINES_SECONDS:
            self._since, self._lines = now, 0
        self._lines += 1
        return self._lines <= ERROR_LINES
