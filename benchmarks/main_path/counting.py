"""A relay in front of slurmrestd that counts the requests on the wire."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack, suppress
from typing import Final, Self

_REQUEST: Final = re.compile(rb"(?:GET|POST|DELETE) /\S+ HTTP/1\.1\r\n")
_LONGEST_LINE: Final = 65536
_CONNECT_SECONDS: Final = 5.0


class CountingRelay:
    """Listens at `url`, passes bytes on to 127.0.0.1:`port`, counts request lines in `requests`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._stack = AsyncExitStack()
        self.requests = 0
        self.url = ""

    async def __aenter__(self) -> Self:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._stack.callback(server.close)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Nothing follows here, and asyncio 3.11 reports a cancelled connection as a failure.
        with suppress(OSError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_CONNECT_SECONDS):
                up = await asyncio.open_connection("127.0.0.1", self._port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, up[1], counted=True))
                group.create_task(self._pass(up[0], writer))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool = False
    ) -> None:
        rest = b""
        try:
            while data := await reader.read(_LONGEST_LINE):
                if counted:
                    rest = self._count(rest + data)
                writer.write(data)
                await writer.drain()
        except OSError:
            return
        finally:
            writer.close()

    def _count(self, data: bytes) -> bytes:
        """Count request lines; returns the end of the data, where another one may begin."""
        self.requests += len(_REQUEST.findall(data))
        return data[data.rfind(b"\n") + 1 :][-_LONGEST_LINE:]
