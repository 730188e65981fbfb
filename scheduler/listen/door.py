"""One connection: a bare socket until the caller sends a byte, then aiohttp's. We can close it at
any time.

Most connections of a flood never send a byte. A transport, a handler and, for TLS, a buffer of 256
KiB are made only for a connection that sends one.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, cast

from aiohttp import web

_LINGER_SECONDS: Final = 1.0
# The most that one read of the event loop can return (asyncio's own buffer for TLS).
_MOST_EARLY_BYTES: Final = 256 * 1024
# What is read is parsed in one turn of the loop. A body in chunks of a byte takes 3 ms for so much
# (measured); asyncio would read 256 KiB at a time.
_MOST_READ: Final = 8 * 1024
# With these socket options close() sends a reset, and the kernel keeps no state of the connection
# afterwards, not even for a minute (TIME_WAIT).
_RESET: Final = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Terms:
    """How many seconds a caller has, counted from the moment it connects: `stranger_seconds` until
    it has shown a token that we know, and `handshake_seconds` for the TLS handshake. Without TLS,
    `tls` is None.
    """

    stranger_seconds: float
    handshake_seconds: float
    tls: ssl.SSLContext | None


class House(Protocol):
    """The listener that a door belongs to."""

    def speaks(self, door: Door) -> web.RequestHandler | None:
        """The handler of this connection's requests; None if the listener is closing."""
        ...

    def left(self, door: Door, handler: object) -> None:
        """The connection has ended."""
        ...


class Door(asyncio.Protocol):
    """The protocol between a socket and aiohttp's handler."""

    def __init__(
        self, house: House, connection: socket.socket, *, address: str, terms: Terms
    ) -> None:
        self.address = address
        self._loop = asyncio.get_running_loop()
        self._house = house
        self._socket = connection
        self._terms = terms
        self._came_at = self._loop.time()
        self._opening: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._handler: web.RequestHandler | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_cut = False
        self._early = bytearray()

    def refuse(self) -> None:
        """Close the socket at once: there was no place for this connection."""
        self._reset()

    def wait(self) -> None:
        """Wait for the caller's first byte, for as long as `Terms` allow."""
        terms = self._terms
        first = terms.stranger_seconds
        if terms.tls is not None:
            first = min(first, terms.handshake_seconds)
        self._cut_at(self._came_at + first)
        # By number, not by object: a selector formats an object that it does not know into its
        # error, which is slow.
        self._loop.add_reader(self._socket.fileno(), self._speaks_or_left)

    def cut(self) -> None:
        """Close the connection at once."""
        self._is_cut = True
        if self._transport is not None:
            self._transport.abort()
        elif self._opening is None:
            self._loop.remove_reader(self._socket.fileno())
            self._reset()
            self._leave()

    def cut_after(self, seconds: float) -> None:
        """Close the connection after so many seconds, whatever it does then."""
        self._cut_at(self._loop.time() + seconds)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """asyncio has made the transport; start TLS, or serve."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.max_size = _MOST_READ  # type: ignore[attr-defined]
        if self._is_cut:
            self._transport.abort()
        elif self._terms.tls is None:
            self._serve(self._transport)
        else:
            self._transport.pause_reading()  # the next bytes belong to the handshake

    def data_received(self, data: bytes) -> None:
        """Pass the bytes to the handler. A TLS client may send its request in the packet that ends
        the handshake; those bytes arrive before there is a handler, and are kept for it.
        """
        if self._handler is not None:
            self._handler.data_received(data)
        elif len(self._early) + len(data) <= _MOST_EARLY_BYTES:
            self._early += data
        else:
            self.cut()

    def eof_received(self) -> None:
        """Tell the handler that the caller sends nothing more."""
        if self._handler is not None:
            self._handler.eof_received()

    def pause_writing(self) -> None:
        """Tell the handler to stop writing for now."""
        if self._handler is not None:
            self._handler.pause_writing()

    def resume_writing(self) -> None:
        """Tell the handler that it may write again."""
        if self._handler is not None:
            self._handler.resume_writing()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection has ended, by the caller or by us."""
        self._leave()
        if self._handler is not None:
            self._handler.connection_lost(exc)
        self._handler = self._transport = None

    def _speaks_or_left(self) -> None:
        try:
            speaks = bool(self._socket.recv(1, socket.MSG_PEEK))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            speaks = False
        if not speaks:
            self.cut()
            return
        self._loop.remove_reader(self._socket.fileno())
        self._opening = self._loop.create_task(self._open(), name="connection")

    async def _open(self) -> None:
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: self, self._socket)
        except OSError:
            self._reset()
            self._leave()
            return
        if self._terms.tls is not None and not transport.is_closing():
            await self._shake_hands(transport, self._terms.tls)

    async def _shake_hands(self, transport: asyncio.Transport, tls: ssl.SSLContext) -> None:
        try:
            encrypted = await self._loop.start_tls(
                transport, self, tls, server_side=True, ssl_shutdown_timeout=_LINGER_SECONDS
            )
        except OSError:
            encrypted = None
        if encrypted is None or transport.is_closing():
            transport.abort()
            self.connection_lost(None)  # asyncio does not call it before the handshake is over
        else:
            self._serve(encrypted)

    def _serve(self, transport: asyncio.Transport) -> None:
        self._handler = self._house.speaks(self)
        if self._handler is None:
            transport.abort()
            return
        self._cut_at(self._came_at + self._terms.stranger_seconds)
        self._handler.connection_made(transport)
        early, self._early = bytes(self._early), bytearray()
        if early:
            self._handler.data_received(early)

    def _reset(self) -> None:
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()

    def _leave(self) -> None:
        self._cancel_timer()
        self._house.left(self, self._handler)

    def _cut_at(self, when: float) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_at(when, self.cut)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
