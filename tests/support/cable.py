"""A TCP forwarder in a thread of its own. Tests cut it, to play a partition between two healthy
servers, or turn it to another server, to play an address that another server takes over.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from tests.support import listeners

_REQUEST: Final = re.compile(rb"(GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.[01]\r\n")
_CALL_SECONDS: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"
_IP_FREEBIND: Final = 15  # ip(7); the module socket has no name for it


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that went through as plain HTTP; `at` is the time of day in seconds."""

    at: float
    method: str
    path: str


class Cable:
    """Forwards its `port` to `host`:`to_port` while its context is open.

    It listens at the address `at`, which this machine may get only later. It records the request
    lines of plain HTTP and nothing of TLS. Use tests.faults.proxy for faults that depend on what
    is sent.
    """

    def __init__(self, to_port: int, *, host: str = _LOOPBACK, at: str = _LOOPBACK) -> None:
        self._target = host, to_port
        self._replacing: tuple[bytes, bytes] | None = None
        self._at = at
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="cable", daemon=True)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._open = asyncio.Event()
        self.requests: list[Asked] = []
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CALL_SECONDS)
        self._loop.close()

    def cut(self) -> None:
        """Hold back all bytes from now on; connections stay open, so neither side notices."""
        self._call(self._set(open_=False))

    def heal(self) -> None:
        """Let new connections through. Connections from before the cut are closed."""
        self._call(self._set(open_=True))

    def turn_to(self, port: int, *, replacing: tuple[bytes, bytes] | None = None) -> None:
        """Lead to that port from now on, and close open connections.

        `replacing` is a text to look for in what clients send, and the text to put in its place,
        such as a token that is valid at the other server. The text must arrive in one piece.
        """
        self._call(self._turn(port, replacing))

    def writes(self, *, since: float) -> list[Asked]:
        """Requests since that time of day, other than GET."""
        return [it for it in self.requests if it.at >= since and it.method != "GET"]

    async def _listen(self) -> None:
        self._open.set()
        listener = socket.socket()
        listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        listener.bind((self._at, 0))
        self._server = await asyncio.start_server(self._accepted, sock=listener)
        self.port = listener.getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        await listeners.close(self._server)
        await self._drop()

    async def _set(self, *, open_: bool) -> None:
        if open_:
            await self._drop()
            self._open.set()
        else:
            self._open.clear()

    async def _turn(self, port: int, replacing: tuple[bytes, bytes] | None) -> None:
        self._target = self._target[0], port
        self._replacing = replacing
        await self._drop()

    async def _drop(self) -> None:
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with suppress(OSError, asyncio.CancelledError):
                await self._join(reader, writer)
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        replacing = self._replacing
        there, back = await asyncio.open_connection(*self._target)
        try:
            pumps = [
                asyncio.create_task(self._pump(reader, back, listens=True, replacing=replacing)),
                asyncio.create_task(self._pump(there, writer, listens=False)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            back.transport.abort()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        listens: bool,
        replacing: tuple[bytes, bytes] | None = None,
    ) -> None:
        while data := await reader.read(65536):
            await self._open.wait()
            if listens and (line := _REQUEST.match(data)):
                method, path = line[1].decode(), line[2].decode()
                self.requests.append(Asked(time.time(), method, path))
            writer.write(data.replace(*replacing) if replacing else data)
            await writer.drain()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_SECONDS)
