"""Accepts connections: a bounded number in a turn of the loop, and none while no file descriptor is
free.

asyncio makes a transport, a protocol and a task for each connection before our code is asked. Here
a connection is a bare socket until somebody wants to keep it: refusing one costs a few system
calls, and a storm of connections takes a fixed share of the loop's time. One that is kept costs
much more once its caller speaks, so after that none is accepted for a while.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from scheduler.config.settings import Address

# How many connections wait in the kernel until we accept them. Callers in a burst beyond this
# number would have to try again after a second.
BACKLOG: Final = 1024
# 32 refusals take less than a millisecond (measured); then everything else on the loop has 5 ms.
# This still accepts 6000 connections a second.
MOST_A_TURN: Final = 32
REST_SECONDS: Final = 0.005
# To read the head of a request and to answer it took 0.12 ms (measured). 32 callers who came back
# at once took 69 % of the loop, and with these rests they take a third.
REQUEST_REST_SECONDS: Final = 0.0003
# asyncio waits for the same time when accept() finds no free descriptor.
_NO_DESCRIPTOR_SECONDS: Final = 1.0

Came = Callable[[socket.socket, str], None]


class Acceptor:
    """Calls `came` with each connection and the host it comes from."""

    def __init__(self, came: Came) -> None:
        self._loop = asyncio.get_running_loop()
        self._came = came
        self._listening: list[socket.socket] = []
        self._resting: dict[socket.socket, asyncio.TimerHandle] = {}
        self._requests = 0

    async def open(self, address: Address) -> int:
        """Listen on the address; returns the port. Raises OSError if the address cannot be
        bound.
        """
        # create_server() resolves the host and binds all of its addresses. We use nothing else of
        # it.
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

    def speaks(self) -> None:
        """Note that a connection gets a request handled."""
        self._requests += 1

    def close(self) -> None:
        """Stop listening. Connections that were accepted stay open."""
        for resting in self._resting.values():
            resting.cancel()
        self._resting.clear()
        for listening in self._listening:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        self._listening.clear()

    def _accept(self, listening: socket.socket) -> None:
        seconds, self._requests = self._requests * REQUEST_REST_SECONDS, 0
        for _ in range(MOST_A_TURN):
            try:
                connection, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                self._rest(listening, _NO_DESCRIPTOR_SECONDS)
                self._loop.call_exception_handler({"message": "accept failed", "exception": error})
                return
            connection.setblocking(False)
            self._came(connection, str(peer[0]))
        else:
            seconds += REST_SECONDS
        if seconds:
            self._rest(listening, seconds)

    def _rest(self, listening: socket.socket, seconds: float) -> None:
        self._loop.remove_reader(listening.fileno())
        self._resting[listening] = self._loop.call_later(seconds, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        del self._resting[listening]
        self._loop.add_reader(listening.fileno(), self._accept, listening)
