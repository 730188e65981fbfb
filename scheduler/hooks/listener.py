"""A bounded HTTP listener: so many connections, so long without a known caller, TLS if wanted."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web

from scheduler.settings import Address

MOST_CONNECTIONS: Final = 2048
# A connection must have brought its head, with a token that we know, by then.
STRANGER_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 0.5
_LINGER_SECONDS: Final = 1.0


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
