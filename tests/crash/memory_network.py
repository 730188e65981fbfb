"""A network in memory: listeners by port, connections that are pairs of queues, and hosts that die.

Who opens a connection is known by the context it runs in: a `Host` sees what it writes before it is
sent, and what it is sent before it is read, and may die in between.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import itertools
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

# One way; long enough that what happens at once elsewhere comes in between.
LATENCY_SECONDS: Final = 0.001
_APART_SECONDS: Final = 1e-6


class Wire(ABC):
    """What a host looks at of one of its connections. Each gives what goes on its way."""

    end: MemoryTransport

    @abstractmethod
    def sent(self, data: bytes) -> bytes:
        """The host writes that."""
        ...

    @abstractmethod
    def received(self, data: bytes) -> bytes:
        """That has arrived for the host."""
        ...


class Host:
    """A machine, or a process, that has connections and can be gone from one moment to the next.

    `watch` is asked for a Wire for each connection that it opens to a port, `watch_asked` for one
    that others open to a port of its own.
    """

    def __init__(
        self, owner: Any, watch: Callable[[int], Wire], *, watch_asked: Callable[[int], Wire]
    ) -> None:
        self.owner = owner
        self.dead = False
        self.watch = watch
        self.watch_asked = watch_asked
        self.ends: set[MemoryTransport] = set()
        self.servers: set[MemoryServer] = set()

    def die(self, linger: float) -> None:
        """From now on nothing of it is sent or read. What is under way to others arrives; they
        learn of the end so many seconds later.
        """
        self.dead = True
        for end in tuple(self.ends):
            end.vanish(linger)
        for server in tuple(self.servers):
            server.close()


HERE: Final[ContextVar[Host | None]] = ContextVar("host", default=None)


class MemoryNetwork:
    """All ports of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._listeners: dict[int, _Listener] = {}
        self._reserved: dict[int, tuple[Any, Any]] = {}
        self._ports = itertools.count(20_000)
        self._last = 0.0

    def listen(self, factory: Callable[[], Any], port: int) -> MemoryServer:
        """Take connections on a port, a free one for 0."""
        port = port or self.free_port()
        if port in self._listeners:
            raise OSError(errno.EADDRINUSE, f"port {port} is in use")
        self._listeners[port] = _Listener(factory, contextvars.copy_context())
        server = MemoryServer(self, port)
        host = HERE.get()
        if host is not None:
            host.servers.add(server)
        return server

    def free_port(self) -> int:
        """One that nobody has had."""
        return next(self._ports)

    def close(self, port: int) -> None:
        """Take no more of them."""
        self._listeners.pop(port, None)

    def reserve(self, sock: Any, address: tuple[Any, ...]) -> None:
        """`sock` is connected to that address."""
        self._find(address[1])
        self._reserved[id(sock)] = (address[0], address[1])

    def reserved(self, sock: Any) -> tuple[Any, Any]:
        """What it is connected to; the socket itself is done with."""
        sock.close()
        return self._reserved.pop(id(sock))

    def connect(self, factory: Callable[[], Any], address: tuple[Any, Any]) -> tuple[Any, Any]:
        """Connect to whoever listens there. Raises OSError."""
        listener, host = self._find(address[1]), HERE.get()
        client, server = factory(), listener.factory()
        near = MemoryTransport(self, client, contextvars.copy_context(), address)
        far = MemoryTransport(self, server, listener.context, ("127.0.0.1", 0))
        near.peer, far.peer = far, near
        if host is not None:
            near.belong(host, host.watch(address[1]))
        asked = listener.context.get(HERE)
        if asked is not None:
            far.belong(asked, asked.watch_asked(address[1]))
        client.connection_made(near)
        listener.context.run(server.connection_made, far)
        return near, client

    def arrival(self) -> float:
        """When what is sent now arrives: after all that was sent before. The loop's timers keep no
        order among those of one moment, so two connections would take turns as they please.
        """
        self._last = max(self.loop.time() + LATENCY_SECONDS, self._last + _APART_SECONDS)
        return self._last

    def _find(self, port: int) -> _Listener:
        host = HERE.get()
        listener = self._listeners.get(port)
        if listener is None or (host is not None and host.dead):
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens on port {port}")
        return listener


class _Listener:
    def __init__(self, factory: Callable[[], Any], context: contextvars.Context) -> None:
        self.factory = factory
        self.context = context


class _Address:
    """As much of a listening socket as anybody asks for."""

    def __init__(self, port: int) -> None:
        self._port = port

    def getsockname(self) -> tuple[str, int]:
        return ("127.0.0.1", self._port)

    def fileno(self) -> int:
        return -1


class _Socket:
    """What may be set, though nothing comes of it here."""

    family = socket.AF_UNIX

    def setsockopt(self, *_: Any) -> None:
        pass

    def fileno(self) -> int:
        return -1


class MemoryServer(asyncio.AbstractServer):
    """A listener."""

    def __init__(self, network: MemoryNetwork, port: int) -> None:
        self._network = network
        self._port = port
        self.sockets = [_Address(port)]

    def close(self) -> None:
        """Take no more connections."""
        self._network.close(self._port)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The one of the network."""
        return self._network.loop

    def is_serving(self) -> bool:
        """Whether it takes any."""
        return self._port in self._network._listeners

    async def start_serving(self) -> None:
        """It does from the beginning."""

    async def serve_forever(self) -> None:
        """Until cancelled."""
        await asyncio.Event().wait()

    async def wait_closed(self) -> None:
        """At once."""


class MemoryTransport(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self,
        network: MemoryNetwork,
        protocol: Any,
        context: contextvars.Context,
        peername: tuple[Any, Any],
    ) -> None:
        names = {"peername": peername, "sockname": ("127.0.0.1", 0)}
        super().__init__({**names, "socket": _Socket()})
        self.peer: MemoryTransport
        self.wire: Wire | None = None
        self.host: Host | None = None
        self._network = network
        self._loop = network.loop
        self._protocol = protocol
        self._context = context
        self._inbox: deque[bytes | None] = deque()  # None is the end
        self._closing = self._lost = self._paused = False

    # --- what protocols call

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._paused

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._soon(self._deliver)

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        """There is no such buffer."""

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return False

    def write(self, data: Any) -> None:
        if self._closing:
            return
        going = bytes(data)
        if self.wire is not None:
            going = self.wire.sent(going)
        if going:
            self.peer.arrive(going)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.peer.arrive(None)
            self._soon(self._lose)

    def abort(self) -> None:
        self.close()

    # --- what the network does

    def belong(self, host: Host, wire: Wire) -> None:
        """It ends with that host, which sees what passes."""
        self.host, self.wire, wire.end = host, wire, self
        host.ends.add(self)

    def arrive(self, data: bytes | None) -> None:
        """From the other end; after the latency it is there."""
        self._inbox.append(data)
        self._loop.call_at(self._network.arrival(), self._deliver, context=self._context)

    def vanish(self, linger: float) -> None:
        """The host at this end is gone. What it has sent still arrives, the end of it later."""
        self._closing = True
        self._soon(self._lose)
        self._loop.call_later(linger, self.peer.arrive, None)

    def _deliver(self) -> None:
        while self._inbox and not self._paused and not self._lost:
            data = self._inbox.popleft()
            if data is None:
                self._ended()
            elif not self._closing:
                self._take(data)

    def _take(self, data: bytes) -> None:
        if self.wire is not None:
            data = self.wire.received(data)
        if not data or self._closing:
            return
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            buffer: Any = self._protocol.get_buffer(len(data))
            buffer[: len(data)] = data
            self._protocol.buffer_updated(len(data))
        else:
            self._protocol.data_received(data)

    def _ended(self) -> None:
        if not self._closing and not self._protocol.eof_received():
            self.close()

    def _lose(self) -> None:
        if self._lost:
            return
        self._lost = True
        if self.host is not None:
            self.host.ends.discard(self)
        self._protocol.connection_lost(None)

    def _soon(self, call: Callable[..., None]) -> None:
        self._loop.call_soon(call, context=self._context)
