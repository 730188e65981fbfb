"""A relay of TCP before slurmrestd, which can be turned from one Slurm to another."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, Self
from urllib.parse import urlsplit

from tests.support.cluster import Cluster

_CHUNK: Final = 64 * 1024


class Relay:
    """A context manager that listens on a port of its own. Requests bear the token of `home`; what
    goes to another Slurm gets one that is good there.
    """

    def __init__(self, home: Cluster) -> None:
        self._home = self._target = home
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        """Where slurmrestd seems to be."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def turn_to(self, cluster: Cluster) -> None:
        """Lead there from now on; connections that are open are cut."""
        self._target = cluster
        self._cut()

    def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = self._target
        ends = [writer]
        self._writers.add(writer)
        with suppress(OSError):
            address = urlsplit(target.slurm_url)
            there, back = await asyncio.open_connection(address.hostname, address.port)
            ends.append(back)
            self._writers.add(back)
            swapped = self._tokens(target)
            await asyncio.gather(_pipe(reader, back, swapped), _pipe(there, writer, None))
        for end in ends:
            self._writers.discard(end)
            end.close()

    def _tokens(self, target: Cluster) -> tuple[bytes, bytes] | None:
        if target is self._home:
            return None
        ours = self._home.slurm_token_file.read_bytes().strip()
        return ours, target.slurm_token_file.read_bytes().strip()


async def _pipe(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    swapped: tuple[bytes, bytes] | None,
) -> None:
    """Until either end is closed. A request's header comes in one piece, and so does its token."""
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data.replace(*swapped) if swapped else data)
            await writer.drain()
    finally:
        with suppress(OSError):
            writer.write_eof() if writer.can_write_eof() else None
