"""The fault proxy: one listener in front of one server, which speaks HTTP/1.1 to both sides.

It passes bytes on unchanged, including tokens and double answers, unless a rule of its `Play` has
a fault for the request. A failure on the server's side reaches the client as a reset.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Coroutine
from typing import Any, Final, Self
from urllib.parse import urlsplit

from tests.faults.calls import Server, call_of
from tests.faults.exchange import Exchange, Stream, UpstreamGoneError, reset
from tests.faults.messages import LONGEST_HEAD, Head, read_head, request_body
from tests.faults.play import Moment, Play
from tests.support import listeners

# With TLS a client has to answer the closing message, and one that has been killed never does.
_GOODBYE_SECONDS: Final = 5.0


class FaultProxy:
    """In front of `upstream` ("http://HOST:PORT", "https://HOST:PORT" or "unix:/PATH").

    An async context manager. `trust` verifies an https server, `certificate` is what the proxy
    shows; without it the proxy speaks plain HTTP.
    """

    def __init__(
        self,
        server: Server,
        upstream: str,
        *,
        play: Play,
        trust: ssl.SSLContext | None = None,
        certificate: ssl.SSLContext | None = None,
    ) -> None:
        self.server = server
        self._play = play
        self._upstream = urlsplit(upstream)
        self._trust = trust
        self._certificate = certificate
        self._listener: asyncio.Server | None = None
        self._held: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self._port = 0

    @property
    def url(self) -> str:
        """Where clients find it."""
        scheme = "http" if self._certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._port}"

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        self._let_go()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def refuse(self) -> None:
        """Refuse new connections, and cut those that are there. The port stays ours."""
        if self._listener is not None:
            listener, self._listener = self._listener, None
            await listeners.close(listener)
            self._held = _bound(self._port)
        self.cut()

    def cut(self) -> None:
        """Reset the connections that are there."""
        for client in self._clients:
            reset(client)

    async def refuse_for(self, seconds: float) -> None:
        """Refuse new connections for so many seconds, and cut those that are there."""
        await self.refuse()
        self._keep(self._accept_after(seconds))

    async def accept(self) -> None:
        """Take connections again."""
        self._let_go()
        if self._listener is None:
            loop = asyncio.get_running_loop()
            listener = await loop.create_server(
                self._protocol, "127.0.0.1", self._port, ssl=self._certificate
            )
            self._listener = listener
            self._port = listener.sockets[0].getsockname()[1]

    async def connect(self) -> Stream:
        """A connection to the server. Raises OSError."""
        to = self._upstream
        if to.scheme == "unix":
            return await asyncio.open_unix_connection(to.path, limit=LONGEST_HEAD)
        trust = self._trust if to.scheme == "https" else None
        return await asyncio.open_connection(to.hostname, to.port, ssl=trust, limit=LONGEST_HEAD)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    def _protocol(self) -> asyncio.StreamReaderProtocol:
        reader = _ClientReader(limit=LONGEST_HEAD)

        def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._keep(self._serve(reader, writer))

        return asyncio.StreamReaderProtocol(reader, connected)

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name="fault proxy")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept_after(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.accept()

    async def _serve(self, reader: _ClientReader, writer: asyncio.StreamWriter) -> None:
        self._clients.add(writer)
        upstream: Stream | None = None
        try:
            while (head := await read_head(reader)) is not None:
                exchange = self._exchange(head, await request_body(reader, head), writer, upstream)
                try:
                    await self._while_there(reader, exchange)
                    await exchange.ended()
                finally:
                    upstream = exchange.upstream
                if exchange.spent:
                    break
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has left
        except Exception as error:  # noqa: BLE001 - told by the tests, which look for it
            self._play.failures.append(repr(error))
        finally:
            if upstream is not None:
                upstream[1].transport.abort()
            await self._say_goodbye(writer)

    async def _say_goodbye(self, client: asyncio.StreamWriter) -> None:
        """Close a connection after what was sent, even if this task is cancelled meanwhile."""
        client.close()
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await client.wait_closed()
        except (OSError, TimeoutError):
            pass  # the client has left, without a word
        finally:
            client.transport.abort()
            self._clients.discard(client)

    def _exchange(
        self, head: Head, body: bytes, client: asyncio.StreamWriter, upstream: Stream | None
    ) -> Exchange:
        call = call_of(self.server, head.method, head.target)
        if call is None:
            self._play.strangers.append(f"{head.method} {head.target}")
        number = self._play.count(call)
        return Exchange(self, self._play, call, head, body, client, number, upstream)

    async def _while_there(self, reader: _ClientReader, exchange: Exchange) -> None:
        """Deal with the request, until the client leaves."""
        working = asyncio.ensure_future(self._deal(exchange))
        leaving = asyncio.ensure_future(reader.left.wait())
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, leaving):
                if not task.done():
                    task.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
        if not working.cancelled():
            working.result()
        exchange.spent = exchange.spent or not leaving.cancelled()

    async def _deal(self, exchange: Exchange) -> None:
        await self._play.call_hooks(Moment.ARRIVED, exchange)
        fault = self._play.taken(exchange)
        try:
            await (exchange.relay() if fault is None else fault(exchange))
        except UpstreamGoneError:
            exchange.reset()


class _ClientReader(asyncio.StreamReader):
    """Detects that the client has left, without reading what it may have sent."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit=limit)
        self.left = asyncio.Event()

    def feed_eof(self) -> None:
        super().feed_eof()
        self.left.set()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self.left.set()


def _bound(port: int) -> socket.socket | None:
    """A bound port without a listener, which refuses connections; None if somebody has taken it."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
    except OSError:
        found.close()
        return None
    return found
