"""An event loop without real time and without sockets: whole clusters play hours in a second.

Waits end at once and move the clock; connections are pairs of queues. So the very clients and
servers that speak HTTP over TCP run in it unchanged, and each run goes as the one before.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest import mock

from tests.crash.memory_network import MemoryNetwork, MemoryServer
from tests.crash.memory_sockets import AcceptedSocket, BoundServer, Readers

T = TypeVar("T")


class _NobodyWaits(selectors.DefaultSelector):
    """Waits for nothing: where there is nothing to do, time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everything waits, and nothing can ever happen")
        if timeout > 0:
            self.now += timeout
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 1000 s."""

    def __init__(self) -> None:
        self._virtual = _NobodyWaits()
        super().__init__(self._virtual)
        self.network = MemoryNetwork(self)
        self._readers = Readers(self)

    def time(self) -> float:
        """The virtual time."""
        return self._virtual.now

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """At once: a thread would finish at some real time."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is the caller's
            future.set_exception(error)
        return future

    async def sock_connect(self, sock: Any, address: Any) -> None:
        """As a real one, on the network in memory."""
        self.network.reserve(sock, address)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **more: Any
    ) -> tuple[Any, Any]:
        """To a listener of this loop."""
        address = self.network.reserved(more["sock"]) if more.get("sock") else (host, port)
        return self.network.connect(protocol_factory, address)

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: Any = None, port: int = 0, **more: Any
    ) -> MemoryServer | BoundServer:
        """Listen for connections of this loop."""
        if more.get("start_serving", True):
            return self.network.listen(protocol_factory, port)
        return BoundServer(self.network, self._readers, port or self.network.free_port())

    async def connect_accepted_socket(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], sock: AcceptedSocket, **_: Any
    ) -> tuple[Any, Any]:
        """What a socket of this loop has received, and will receive, is the protocol's."""
        protocol = protocol_factory()
        return sock.hand_over(protocol), protocol

    def add_reader(  # type: ignore[override]
        self, fd: int, callback: Callable[..., Any], *args: Any
    ) -> None:
        """For a socket in memory."""
        self._readers.add(fd, callback, *args)

    def remove_reader(self, fd: int) -> bool:  # type: ignore[override]
        """For a socket in memory."""
        return self._readers.remove(fd)

    async def create_unix_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], path: Any = None, **_: Any
    ) -> MemoryServer:
        """A socket that nobody connects to."""
        return MemoryServer(self.network, 0)


@contextmanager
def alone(loop: asyncio.AbstractEventLoop, now: Callable[[], float]) -> Iterator[None]:
    """All clocks are this loop's, the time of day is `now`, and nothing is asked of the machine."""

    def awake(_clock: int) -> float:
        return loop.time()

    with (
        mock.patch("time.time", now),
        # The election's, which also counts while a machine sleeps.
        mock.patch("time.clock_gettime", awake),
        # Reading the system's authorities takes as long as all else, and there is no TLS here.
        mock.patch("ssl.SSLContext.load_default_certs"),
        mock.patch("scheduler.service.app.watch_loop", _never_late),
    ):
        yield


async def _never_late(_metrics: object) -> None:
    """In the place of what looks fifty times a second whether the loop is late, which here it never
    is; most instants there are would be its own.
    """
    await asyncio.Event().wait()
