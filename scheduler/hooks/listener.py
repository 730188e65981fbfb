"""A bounded HTTP listener: so many connections, so long without a known caller, TLS if wanted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web

from scheduler.settings import Address

log = structlog.get_logger(__name__)

MOST_CONNECTIONS: Final = 2048
# A connection must have brought its head, with a token that we know, by then.
STRANGER_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 0.5
_LINGER_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 5.0

_Signature = tuple[tuple[int, int], ...]


class Listener:
    """Serves `app`; `admitted` tells of a connection whether its caller has shown a token."""

    def __init__(
        self,
        app: web.Application,
        *,
        admitted: Callable[[object], bool],
        connections: int = MOST_CONNECTIONS,
        stranger_seconds: float = STRANGER_SECONDS,
    ) -> None:
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=_STOP_SECONDS,
            lingering_time=_LINGER_SECONDS,
            handler_cancellation=True,
        )
        self._admitted = admitted
        self._connections = connections
        self._stranger_seconds = stranger_seconds
        self._server: asyncio.Server | None = None

    async def open(self, address: Address, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen there; returns the port. Raises OSError when the address cannot be had."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            self._connected, address.host, address.port, ssl=tls
        )
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Stop listening; who waits is cut off, and asks the next process."""
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _connected(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        if server is None or len(server.connections) >= self._connections:
            return _Refusal()
        handler = server()
        asyncio.get_running_loop().call_later(self._stranger_seconds, self._part, handler)
        return handler

    def _part(self, handler: web.RequestHandler) -> None:
        if handler.transport is not None and not self._admitted(handler):
            handler.transport.abort()


class _Refusal(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            transport.abort()


class Certificate:
    """A TLS context from two PEM files, which follows them when they are renewed."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._files = (certificate, key)
        self._signature: _Signature = ()
        self.context = _context()

    def load(self) -> None:
        """Read the files. Raises OSError (ssl.SSLError is one) when they do not fit."""
        signature = self._looked()
        _context().load_cert_chain(*self._files)  # a half-written pair must not spoil the other
        self.context.load_cert_chain(*self._files)
        self._signature = signature

    async def follow(self) -> None:
        """Read them again whenever they change, for ever; a bad pair leaves the former in use."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if await asyncio.to_thread(self._looked) != self._signature:
                    await asyncio.to_thread(self.load)
                    log.info("the hooks API has a new certificate", file=str(self._files[0]))
            except OSError as error:
                log.warning("the hooks API keeps its former certificate", error=str(error))

    def _looked(self) -> _Signature:
        stats = [path.stat() for path in self._files]
        return tuple((it.st_mtime_ns, it.st_ino) for it in stats)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
