"""Thousands of connections to one port, from several addresses of the loopback network."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Final, Self

_SLICE: Final = 100


class Flood:
    """Connections that send `words` and then nothing, until either side closes them."""

    def __init__(self, port: int, *, addresses: int, words: bytes = b"") -> None:
        self._port = port
        self._addresses = [f"127.0.1.{n + 1}" for n in range(addresses)]
        self._words = words
        self._sockets: list[socket.socket] = []

    async def open(self, count: int) -> None:
        """Open `count` more connections, from each of the addresses in turn."""
        loop = asyncio.get_running_loop()
        for n in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            sock.bind((self._addresses[n % len(self._addresses)], 0))
            self._sockets.append(sock)
            with suppress(OSError):
                async with asyncio.timeout(5):
                    await loop.sock_connect(sock, ("127.0.0.1", self._port))
                    if self._words:
                        await loop.sock_sendall(sock, self._words)
            if n % _SLICE == 0:
                await asyncio.sleep(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for sock in self._sockets:
            sock.close()
