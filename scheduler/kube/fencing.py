"""Asks for the permit of a write when its first byte is about to leave.

By then the connection has been made or has become free, which takes time.
"""

from __future__ import annotations

from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection

from scheduler.kube.errors import KubeFenced

Permit = Callable[[], float]
"""Seconds within which the last byte of a write must have left; 0 or less: no write may be sent."""


def permitted(permit: Permit | None, method: str) -> float:
    """Seconds that are left for the write. Raises KubeFenced if it must not be sent."""
    if permit is None or method == "GET":
        return float("inf")
    left = permit()
    if left <= 0:
        raise KubeFenced(f"{method} was not sent: another process may lead by now")
    return left


def request_class(permit: Permit | None) -> type[aiohttp.ClientRequest]:
    """The request class of a session whose writes need a permit."""
    if permit is None:
        return aiohttp.ClientRequest

    class Request(aiohttp.ClientRequest):
        """A request that asks for the permit again when it has its connection."""

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            """Ask before the headers: they are sent with the body, so nothing has left yet."""
            try:
                permitted(permit, self.method)
            except KubeFenced as fenced:
                if conn.protocol is not None:
                    conn.protocol.set_exception(fenced)
                return
            await super().write_bytes(writer, conn, content_length)

    return Request
