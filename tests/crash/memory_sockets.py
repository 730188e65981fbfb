"""Bare sockets on the network in memory, for who accepts connections without the loop's server."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol

# No descriptor of this process has such a number.
_FIRST_NUMBER: Final = 1_000_000


class Network(Protocol):
    """Where they listen."""

    def listen(self, factory: Callable[[], Any], port: int) -> asyncio.AbstractServer:
        """Take connections on a port."""
        ...


class Readers:
    """Who is called when a socket has something to read, as a selector has it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._numbers = itertools.count(_FIRST_NUMBER)
        self._calls: dict[int, Callable[[], object]] = {}

    def number(self) -> int:
        """For another socket."""
        return next(self._numbers)

    def add(self, number: int, callback: Callable[..., object], *args: Any) -> None:
        """Call that in the context of who asks for it, also for what is there already."""
        context = contextvars.copy_context()
        self._calls[number] = lambda: context.run(callback, *args)
        self.readable(number)

    def remove(self, number: int) -> bool:
        """No longer."""
        return self._calls.pop(number, None) is not None

    def readable(self, number: int) -> None:
        """There may be something."""
        self._loop.call_soon(self._call, number)

    def _call(self, number: int) -> None:
        callback = self._calls.get(number)
        if callback is not None:
            callback()


class BoundServer:
    """What the loop gives who wants to accept by itself: one address, nobody listens there yet."""

    def __init__(self, network: Network, readers: Readers, port: int) -> None:
        self._listening = ListeningSocket(network, readers, port)
        self.sockets = [self]

    def dup(self) -> ListeningSocket:
        """The socket."""
        return self._listening

    def close(self) -> None:
        """The socket outlives it."""


class ListeningSocket:
    """As much of one as anybody asks for."""

    def __init__(self, network: Network, readers: Readers, port: int) -> None:
        self._network = network
        self._readers = readers
        self._port = port
        self._number = readers.number()
        self._came: deque[AcceptedSocket] = deque()
        self._server: asyncio.AbstractServer | None = None

    def fileno(self) -> int:
        return self._number

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    def listen(self, _backlog: int) -> None:
        self._server = self._network.listen(self._comes, self._port)

    def accept(self) -> tuple[AcceptedSocket, tuple[str, int]]:
        if not self._came:
            raise BlockingIOError
        return self._came.popleft(), ("127.0.0.1", 0)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def _comes(self) -> AcceptedSocket:
        accepted = AcceptedSocket(self._readers)
        self._came.append(accepted)
        self._readers.readable(self._number)
        return accepted


class AcceptedSocket(asyncio.Protocol):
    """One end of a connection, and its protocol until there is another."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._number = readers.number()
        self._transport: Any = None
        self._held = b""
        self._ended = False

    # --- what the network calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        self._readers.readable(self._number)

    def eof_received(self) -> bool:
        self._ended = True
        self._readers.readable(self._number)
        return True

    def connection_lost(self, _exc: BaseException | None) -> None:
        self.eof_received()

    # --- what its owner calls

    def fileno(self) -> int:
        return self._number

    def setblocking(self, _flag: object) -> None:
        """It never blocks."""

    def setsockopt(self, *_: Any) -> None:
        """Nothing comes of it here."""

    def recv(self, size: int, _flags: int) -> bytes:
        if not self._held and not self._ended:
            raise BlockingIOError
        return self._held[:size]

    def shutdown(self, _how: int) -> None:
        self._transport.abort()

    def close(self) -> None:
        self._transport.abort()

    def hand_over(self, protocol: Any) -> Any:
        """What came until now, and all that will come, is that protocol's. Gives the transport."""
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._held:
            protocol.data_received(self._held)
        if self._ended and not protocol.eof_received():
            self._transport.close()
        return self._transport
