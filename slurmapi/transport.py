"""Connections to one slurmrestd: a bounded keep-alive pool over TCP, TLS or a unix socket. Every
wait has a deadline.

These rules hold: a request that may change something is written to at most one connection, ever.
Errors say whether it was never sent or maybe sent. After any failure, including cancellation, the
connection is closed.

No HTTP library does what we need here. A write must be permitted at the last moment, when it has
its connection, and none of its bytes may be sent later than the permit allows. This takes access
to the socket. Besides, aiohttp rejects the two responses that slurmrestd 26.05.5 sends for a failed
request (measured).
"""

from __future__ import annotations

import asyncio
import math
import ssl
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from groundwork.permit import Permit
from slurmapi.connection import SlurmConnection
from slurmapi.errors import SlurmFenced, SlurmInterrupted, SlurmUnreachable
from slurmapi.http1 import CutShort, Exchange, Request, Response

_EXPECTED: Final = "expected http://HOST:PORT, https://HOST:PORT or unix:/PATH"
_SLOW_FACTOR: Final = 8.0
# One in this many connections is never used for bulk requests: a look at a job whose pod must be
# evicted should not wait for submits.
_KEPT_PART: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds after which a wait ends: for opening a connection, for silence of the peer, and for a
    whole request.

    slurmrestd itself waits up to ten seconds for slurmctld before it answers 502 (measured), so a
    shorter `silence` turns a clear answer into an unclear one. For a `slow` request, `silence` and
    `total` are eight times as long.
    """

    connect: float = 5.0
    silence: float = 15.0
    total: float = 30.0

    def __post_init__(self) -> None:
        for name in ("connect", "silence", "total"):
            value = getattr(self, name)
            if not (0 < value < math.inf):
                raise ValueError(f"{name} deadline is {value}, expected seconds above 0")


def _now() -> float:
    return asyncio.get_running_loop().time()


def _patience(request: Request) -> float:
    return _SLOW_FACTOR if request.slow else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """Where slurmrestd listens: a unix socket, or host and port with TLS or without."""

    host_header: str
    prefix: str = ""
    socket: str | None = None
    host: str = ""
    port: int = 0
    tls: ssl.SSLContext | None = None

    async def open(self) -> SlurmConnection:
        loop = asyncio.get_running_loop()
        if self.socket is not None:
            _, connection = await loop.create_unix_connection(SlurmConnection, self.socket)
        else:
            _, connection = await loop.create_connection(
                SlurmConnection, self.host, self.port, ssl=self.tls
            )
        return connection

    def __str__(self) -> str:
        return self.socket or self.host_header


def check_base_url(base_url: str) -> None:
    """Raises ValueError, which says what is expected, if the URL is not acceptable."""
    _endpoint(base_url)


def _endpoint(base_url: str) -> _Endpoint:
    """Parse "http://host:port", "https://host:port" (a path prefix may follow) or "unix:/path"."""
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:  # its text repeats parts of the address, maybe a password
        raise ValueError(_EXPECTED) from None
    if parts.scheme == "unix" and parts.path.startswith("/") and not parts.netloc:
        return _Endpoint(host_header="localhost", socket=parts.path)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(_EXPECTED)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{_EXPECTED}, without user, query or fragment")
    secure = parts.scheme == "https"
    return _Endpoint(
        host_header=parts.netloc,
        prefix=parts.path.rstrip("/"),
        host=parts.hostname,
        port=port or (443 if secure else 80),
        tls=ssl.create_default_context() if secure else None,
    )


@dataclass(slots=True)
class _Progress:
    """How far a request has come: `sent` is set before its first byte is written."""

    sent: bool = False


class HttpTransport:
    """Sends requests over a pool of at most `connections` keep-alive connections.

    The idle connection that was used last is used first, and connections that are idle for
    IDLE_SECONDS are closed. Callers are served in order of arrival. A quarter of the connections
    is reserved for requests that are not `bulk`. Keep the pool small: beyond slurmrestd's own limit
    (124), further connections starve for half a minute (measured).
    """

    def __init__(
        self,
        base_url: str,
        *,
        deadlines: Deadlines | None = None,
        connections: int = 16,
        permit: Permit | None = None,
    ) -> None:
        if connections < 1:
            raise ValueError(f"connections is {connections}, expected at least 1")
        self._endpoint = _endpoint(base_url)
        self._deadlines = deadlines or Deadlines()
        self._slots = asyncio.Semaphore(connections)
        self._bulk = asyncio.Semaphore(max(1, connections - max(1, connections // _KEPT_PART)))
        self._permit = permit
        self._idle: list[SlurmConnection] = []
        self._closed = False

    async def exchange(self, request: Request) -> Response:
        """The first response to `request`.

        Raises SlurmUnreachable or SlurmFenced (never sent), SlurmInterrupted (maybe sent) or
        SlurmGarbled; ValueError for a request with characters that HTTP does not allow.
        """
        progress = _Progress()
        what = f"{request.method} {request.target[:100]}"
        try:
            total = self._deadlines.total * _patience(request)
            async with asyncio.timeout(total), self._turn(request), self._slots:
                return await self._exchange(request, progress)
        except TimeoutError:
            kind = SlurmInterrupted if progress.sent else SlurmUnreachable
            raise kind(f"{what}: no answer from {self._endpoint} in time") from None
        except CutShort as cut:
            raise SlurmInterrupted(f"{what}: {self._endpoint} closed the connection") from cut

    def _turn(self, request: Request) -> AbstractAsyncContextManager[None]:
        return self._bulk if request.bulk else nullcontext()

    def close(self) -> None:
        """Drop all idle connections; those in use are dropped when their request ends."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, request: Request, progress: _Progress) -> Response:
        if self._closed:
            raise SlurmUnreachable("this client is closed")
        connection = await self._reusable()
        if connection is not None:
            try:
                return await self._try_on(connection, request, progress)
            except CutShort as cut:
                # The usual end of an idle connection: the peer dropped it while the request was
                # on its way.
                if cut.answered or not request.repeatable:
                    raise
        return await self._try_on(await self._opened(), request, progress)

    async def _try_on(
        self, connection: SlurmConnection, request: Request, progress: _Progress
    ) -> Response:
        """Try once on one connection. Every write goes through here."""
        endpoint, keep = self._endpoint, False
        try:
            exchange = Exchange(request, host=endpoint.host_header, prefix=endpoint.prefix)
            sending = self._sending_seconds(request)
            progress.sent = True
            response, keep = await connection.carry(
                exchange, sending=sending, silence=self._deadlines.silence * _patience(request)
            )
        finally:
            if keep and not self._closed:
                self._put_back(connection)
            else:
                connection.abort()
        return response

    def _sending_seconds(self, request: Request) -> float:
        """Within how many seconds the request must be sent. Raises SlurmFenced if no write is
        permitted, and SlurmUnreachable if it is too late for this one.
        """
        silence = self._deadlines.silence
        if request.method == "GET" or (self._permit is None and request.send_by is None):
            return silence
        what = f"{request.method} {request.target[:100]}"
        permitted = silence if self._permit is None else self._permit()
        if permitted <= 0:
            raise SlurmFenced(f"{what}: may not be sent any more")
        left = silence if request.send_by is None else request.send_by - _now()
        if left <= 0:
            raise SlurmUnreachable(f"{what}: it had to wait until it was too late to be sent")
        return min(permitted, left, silence)

    async def _opened(self) -> SlurmConnection:
        try:
            async with asyncio.timeout(self._deadlines.connect):
                return await self._endpoint.open()
        except (OSError, UnicodeError) as error:
            reason = str(error) or "timed out"
            raise SlurmUnreachable(f"cannot connect to {self._endpoint}: {reason}") from error

    async def _reusable(self) -> SlurmConnection | None:
        while self._idle:
            connection = self._idle.pop()
            usable = False
            try:
                usable = await connection.usable()
            finally:
                if not usable:
                    connection.abort()
            if usable:
                return connection
        return None

    def _put_back(self, connection: SlurmConnection) -> None:
        connection.rest()
        self._idle.append(connection)
