"""A bounded HTTP listener for every port that we open: so many connections, so long, TLS or not.

A connection is counted when it is accepted, before any handshake, and ends at a set time whatever
it does. Each one serves one request.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web

from scheduler.config.settings import Address
from scheduler.listen.descriptors import descriptors
from scheduler.listen.places import Capacity, Places, block_of

HOOKS: Final = Capacity(connections=2048, strangers=1024)
"""A waiting question holds its connection: 512 of each kind, and those that are being asked."""
HOOKS_TLS: Final = Capacity(connections=1280, strangers=256)
"""Fewer, since each costs 300 KiB (measured), most of it a buffer that asyncio makes at once."""
FACE: Final = Capacity(connections=256, strangers=256)
"""Probes and scrapes come one at a time, and are answered at once."""
HANDSHAKE_SECONDS: Final = 5.0
# A connection must have brought its head, with a token that we know, by then.
STRANGER_SECONDS: Final = 10.0
# The longest wait, the body before it, and time to take the answer.
KNOWN_SECONDS: Final = 75.0
# One connection can have so much of a head kept for it: 32 times 4 KiB.
MOST_FIELDS: Final = 32
LONGEST_FIELD: Final = 4096
# What one read of the event loop can bring (asyncio's own buffer for TLS).
_MOST_EARLY_BYTES: Final = 256 * 1024
_STOP_SECONDS: Final = 0.5
_LINGER_SECONDS: Final = 1.0
ERROR_LINES: Final = 10
_ERROR_LINES_SECONDS: Final = 60.0


class Listener:
    """Serves one application. Who is not `known` by `stranger_seconds` is cut off."""

    def __init__(
        self,
        capacity: Capacity,
        *,
        stranger_seconds: float = STRANGER_SECONDS,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.places = Places(capacity.within(descriptors()), clock=self._loop.time)
        self._stranger_seconds = stranger_seconds
        self._handshake_seconds = handshake_seconds
        self._open: set[_Door] = set()
        self._doors: dict[object, _Door] = {}
        self._runner: web.AppRunner | None = None
        self._server: asyncio.AbstractServer | None = None

    async def open(
        self, app: web.Application, address: Address, *, tls: ssl.SSLContext | None = None
    ) -> int:
        """Listen there; returns the port. Raises OSError when the address cannot be had."""
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_STOP_SECONDS,
            lingering_time=_LINGER_SECONDS,
            handler_cancellation=True,
            max_line_size=LONGEST_FIELD,
            max_field_size=LONGEST_FIELD,
            max_headers=MOST_FIELDS,
            logger=_few_lines(self._loop.time),
        )
        await self._runner.setup()
        server = await self._loop.create_server(
            lambda: _Door(self, tls), address.host, address.port
        )
        self._server = server
        return int(server.sockets[0].getsockname()[1])

    def know(self, connection: object) -> None:
        """The caller on it has shown a token, and may wait for its answer."""
        door = self._doors.get(connection)
        if door is not None:
            self.places.know(door)
            door.cut_after(KNOWN_SECONDS)

    async def close(self) -> None:
        """Stop listening; who waits is cut off, and asks the next process."""
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for door in tuple(self._open):
            door.cut()

    def came(self, door: _Door) -> bool:
        """Whether there is a place for it."""
        if not self.places.enter(door):
            return False
        self._open.add(door)
        door.cut_after(self._stranger_seconds)
        return True

    def speaks(self, door: _Door) -> web.RequestHandler | None:
        """Whoever answers it; None where we are closing."""
        server = None if self._runner is None else self._runner.server
        if server is None:
            return None
        handler = server()
        self._doors[handler] = door
        return handler

    def left(self, door: _Door, handler: object) -> None:
        """It has ended."""
        self._open.discard(door)
        self.places.leave(door)
        self._doors.pop(handler, None)

    async def encrypt(
        self, door: _Door, transport: asyncio.Transport, tls: ssl.SSLContext
    ) -> asyncio.Transport | None:
        """What is encrypted, once hands are shaken; None where they are not."""
        try:
            return await self._loop.start_tls(
                transport,
                door,
                tls,
                server_side=True,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=_LINGER_SECONDS,
            )
        except OSError:
            return None


class _Door(asyncio.Protocol):
    """What is between a socket and aiohttp's handler: it is counted, and can be shut."""

    def __init__(self, listener: Listener, tls: ssl.SSLContext | None) -> None:
        self.address = ""
        self._listener = listener
        self._tls = tls
        self._socket: asyncio.Transport | None = None
        self._handler: web.RequestHandler | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._early = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """One has been accepted."""
        transport = cast("asyncio.Transport", transport)
        self._socket = transport
        self.address = block_of(str((transport.get_extra_info("peername") or ("",))[0]))
        if not self._listener.came(self):
            transport.abort()
        elif self._tls is None:
            self._serve(transport)
        else:
            transport.pause_reading()  # what comes now is the handshake's
            shaking = self._shake_hands(transport, self._tls)
            self._handshake = asyncio.get_running_loop().create_task(shaking)

    def data_received(self, data: bytes) -> None:
        """As the handler has it. A TLS client may send its request in the packet that ends the
        handshake: it comes before there is a handler, and is kept for it.
        """
        if self._handler is not None:
            self._handler.data_received(data)
        elif len(self._early) + len(data) <= _MOST_EARLY_BYTES:
            self._early += data
        else:
            self.cut()

    def eof_received(self) -> None:
        """As the handler has it."""
        if self._handler is not None:
            self._handler.eof_received()

    def pause_writing(self) -> None:
        """As the handler has it."""
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        """As the handler has it."""
        if self._handler is not None:
            self._handler.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It has ended, by whomever."""
        self._leave()
        if self._handler is not None:
            self._handler.connection_lost(exc)
        self._handler = self._socket = None

    def cut_after(self, seconds: float) -> None:
        """End it then, whatever it does."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.cut)

    def cut(self) -> None:
        """End it at once."""
        if self._socket is not None:
            self._socket.abort()

    def _serve(self, transport: asyncio.Transport) -> None:
        self._handler = self._listener.speaks(self)
        if self._handler is None:
            transport.abort()
        else:
            self._handler.connection_made(transport)
            early, self._early = bytes(self._early), bytearray()
            if early:
                self._handler.data_received(early)

    async def _shake_hands(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        encrypted = await self._listener.encrypt(self, transport, tls)
        if encrypted is None or transport.is_closing():
            transport.abort()
            self.connection_lost(None)  # before a handshake nobody else says so
        else:
            self._serve(encrypted)

    def _leave(self) -> None:
        self._cancel_timer()
        self._listener.left(self, self._handler)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@web.middleware
async def one_request(
    request: web.Request, handler: Callable[[web.Request], Any]
) -> web.StreamResponse:
    """Each connection serves one: so how long it lives is known."""
    try:
        response: web.StreamResponse = await handler(request)
    except web.HTTPException as error:
        error.force_close()
        raise
    response.force_close()
    return response


def _few_lines(clock: Callable[[], float]) -> logging.Logger:
    """aiohttp writes a traceback for each request that it cannot read: a flood would fill disks."""
    logger = logging.Logger("scheduler.listener", logging.WARNING)  # noqa: LOG001 - has a filter
    logger.parent = logging.getLogger()
    logger.addFilter(_Few(clock))
    return logger


class _Few(logging.Filter):
    """Lets so many lines a minute pass."""

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
