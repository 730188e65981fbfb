"""A network namespace of its own, in which servers of ours answer at their own addresses.

For a program that must not notice what other tests do to the network: Chromium ends each request
that waits for a connection, on loopback too, when an interface of its namespace gets or loses an
address (`net::ERR_NETWORK_CHANGED`). Tests with clusters in containers make interfaces meanwhile.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import subprocess
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_CHUNK: Final = 2**16


class OwnNetwork:
    """The namespace of one thread: what this thread creates belongs to it, whoever uses it."""

    def __init__(self, thread: ThreadPoolExecutor, servers: AsyncExitStack) -> None:
        self._thread = thread
        self._servers = servers
        self._known: set[tuple[str, int]] = set()
        task = thread.submit(threading.get_native_id).result()
        self.enter: Final = ("nsenter", f"--net=/proc/{os.getpid()}/task/{task}/ns/net")

    def socket(self) -> socket.socket:
        """A TCP socket that connects and listens there. It does not block."""
        found = self._thread.submit(socket.socket).result()
        found.setblocking(False)
        return found

    async def let_in(self, host: str, port: int) -> None:
        """Let the server at this IPv4 address be reached from there, too."""
        if (host, port) in self._known:
            return
        self._known.add((host, port))
        door = self.socket()
        door.bind((host, port))

        async def passed(inner: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
            try:
                outer, on = await asyncio.open_connection(host, port)
            except OSError:
                back.close()
                return
            await asyncio.gather(_copied(inner, on), _copied(outer, back))

        await self._servers.enter_async_context(await asyncio.start_server(passed, sock=door))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while found := await reader.read(_CHUNK):
            writer.write(found)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def own_network() -> AsyncIterator[OwnNetwork]:
    """A namespace with nothing but loopback. Needs root, and ends with the last process in it."""
    with ThreadPoolExecutor(1, initializer=_leave) as thread:
        async with AsyncExitStack() as servers:
            yield OwnNetwork(thread, servers)


def _leave() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "no network namespace")
    subprocess.run(("ip", "link", "set", "lo", "up"), check=True, stdin=subprocess.DEVNULL)
