"""Accepts connections: so many in a turn of the loop, and none while there are no descriptors.

asyncio makes a transport, a protocol and a task of each one before anybody is asked. Here a
connection is a bare socket, for whoever takes it to close or to keep: refusing one costs a few
system calls, and a storm of them a set part of the loop's time.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from scheduler.config.settings import Address

# So many wait in the kernel for a turn: a burst of honest callers, who else would try again after
# a second.
BACKLOG: Final = 1024
# Below a millisecond of refusals (measured), then all else has time. Still 6000 in a second.
MOST_A_TURN: Final = 32
REST_SECONDS: Final = 0.005
# As asyncio does: until somebody has closed something.
_NO_DESCRIPTOR_SECONDS: Final = 1.0

Came = Callable[[socket.socket, str], None]


class Acceptor:
    """Hands each connection, and the host it comes from, to `came`."""

    def __init__(self, came: Came) -> None:
        self._loop = asyncio.get_running_loop()
        self._came = came
        self._listening: list[socket.socket] = []
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}

    async def open(self, address: Address) -> int:
        """Listen there; returns the port. Raises OSError when the address cannot be had."""
        # It finds and binds all addresses of a host; that is all that is wanted of it.
        bound = await self._loop.create_server(
            asyncio.Protocol, address.host, address.port, start_serving=False
        )
        self._listening = [it.dup() for it in bound.sockets]
        bound.close()
        try:
            for listening in self._listening:
                listening.listen(BACKLOG)
                self._loop.add_reader(listening.fileno(), self._accept, listening)
        except OSError:
            self.close()
            raise
        return int(self._listening[0].getsockname()[1])

    def close(self) -> None:
        """Accept no more."""
        for resting in self._resting.values():
            resting.cancel()
        self._resting.clear()
        for listening in self._listening:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._listening.clear()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(MOST_A_TURN):
            try:
                connection, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(listening, _NO_DESCRIPTOR_SECONDS)
                self._loop.call_exception_handler({"message": "accept failed", "exception": error})
                return
            connection.setblocking(False)
            self._came(connection, str(peer[0]))
        self._rest(listening, REST_SECONDS)

    def _rest(self, listening: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening.fileno())
        self._resting[listening] = self._loop.call_later(seconds, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        del self._resting[listening]
        self._loop.add_reader(listening.fileno(), self._accept, listening)
