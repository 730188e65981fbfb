"""Stops writes to Kubernetes when the lease is lost: checks a write's permit immediately before its
first byte is sent.

The permit is what remains of the lease (`election/elector.py`). `slurmapi/transport.py` does the
same for Slurm.

An earlier check would not be enough: it takes time to make a connection or to wait for a free one.
"""

from __future__ import annotations

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection

from groundwork.permit import Permit
from scheduler.kube.errors import KubeFenced


def permitted(permit: Permit | None, method: str) -> float:
    """Seconds that are left for the request, infinite for a read. Raises KubeFenced if a write must
    not be sent.
    """
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

    class PermittedRequest(aiohttp.ClientRequest):
        """A request that asks for the permit again when it has its connection."""

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            """Send the request if it is permitted. aiohttp sends the headers with the body, so
            nothing has been sent before this check.
            """
            try:
                permitted(permit, self.method)
            except KubeFenced as fenced:
                if conn.protocol is not None:
                    conn.protocol.set_exception(fenced)
                return
            await super().write_bytes(writer, conn, content_length)

    return PermittedRequest
