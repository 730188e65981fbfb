"""One request on its way through a proxy, and what a fault can do with it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.faults.calls import Call, Reads, Server
from tests.faults.messages import Head, answer_pieces, payload, read_head
from tests.faults.play import Moment, Play

if TYPE_CHECKING:
    from tests.faults.proxy import FaultProxy

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class UpstreamGoneError(Exception):
    """The server cannot be reached, or left in the middle of an answer."""


@dataclass(slots=True)
class Answer:
    """The server's answer: its head, and a body that is still to be read."""

    head: Head
    reader: asyncio.StreamReader

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body as it arrives, including the framing of chunks."""
        try:
            async for piece in answer_pieces(self.reader, self.head):
                yield piece
        except (OSError, asyncio.IncompleteReadError) as error:
            raise UpstreamGoneError("in the middle of an answer") from error

    async def drained(self) -> bytes:
        """The whole body without the framing of chunks; whatever follows it is dropped."""
        body = b"".join([payload(self.head, piece) async for piece in self.pieces()])
        async for _ in self.postscript():
            pass
        return body

    async def lines(self) -> AsyncIterator[bytes]:
        """The lines of a watch as they arrive."""
        rest = b""
        async for piece in self.pieces():
            *whole, rest = (rest + payload(self.head, piece)).split(b"\n")
            for line in whole:
                yield line + b"\n"

    async def postscript(self) -> AsyncIterator[bytes]:
        """Bytes after the answer: slurmrestd 26.05.5 sends a second answer (measured)."""
        if self.head.closes:
            while piece := await self.reader.read(64 * 1024):
                yield piece


@dataclass(slots=True)
class Exchange:
    """A request with its client and its server; `write` is its number among the writes, from 1."""

    proxy: FaultProxy
    play: Play
    call: Call | None
    request: Head
    body: bytes
    client: asyncio.StreamWriter
    write: int | None
    upstream: Stream | None = None
    spent: bool = False
    """Whether the client's connection is of no more use."""
    _answered: bool = field(default=False)

    @property
    def server(self) -> Server:
        """The server that the request goes to."""
        return self.proxy.server

    @property
    def name(self) -> str:
        """The name of its kind of call."""
        return "stranger" if self.call is None else self.call.name

    @property
    def is_watch(self) -> bool:
        """Whether the answer is an endless stream."""
        return self.call is not None and self.call.reads is Reads.WATCH

    async def forward(self) -> Answer:
        """Send the request to the server, without passing on the answer yet. May be repeated."""
        reader, writer = await self._connected()
        try:
            writer.write(self.request.raw + self.body)
            await writer.drain()
            head = await read_head(reader)
            while head is not None and head.status < 200:
                head = await read_head(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise UpstreamGoneError("before an answer") from error
        if head is None:
            raise UpstreamGoneError("without an answer")
        await self.play.call_hooks(Moment.ACTED, self)
        return Answer(head, reader)

    async def relay(self, answer: Answer | None = None) -> None:
        """Play no fault: ask the server if need be, and pass the answer on as it arrives."""
        answer = answer or await self.forward()
        kept: list[bytes] = []
        await self.send(answer.head.raw)
        async for piece in answer.pieces():
            await self.send(piece)
            if self._is_list:
                kept.append(payload(answer.head, piece))
        if self._is_list and answer.head.status == 200:
            self.play.remember(self, b"".join(kept))
        async for piece in answer.postscript():
            await self.send(piece)
        self.spent = answer.head.closes

    async def send(self, data: bytes) -> None:
        """Send bytes to the client."""
        self._answered = True
        self.client.write(data)
        await self.client.drain()

    async def close(self) -> None:
        """End the client's connection in order, after what was sent."""
        self.spent = True
        self.client.close()

    def reset(self) -> None:
        """Reset the client's connection (RST); bytes that it has not read yet are lost."""
        self.spent = True
        reset(self.client)

    async def hang(self) -> None:
        """Do nothing until the client leaves."""
        self.spent = True
        await asyncio.Event().wait()

    @property
    def _is_list(self) -> bool:
        return self.call is not None and self.call.reads is Reads.LIST

    async def ended(self) -> None:
        """Call the hooks for an answered request, if it was answered."""
        if self._answered:
            await self.play.call_hooks(Moment.ANSWERED, self)

    async def _connected(self) -> Stream:
        """The upstream connection; a new one if the former has ended."""
        if self.upstream is not None:
            reader, writer = self.upstream
            if not reader.at_eof() and not writer.is_closing():
                return self.upstream
            writer.transport.abort()
        try:
            self.upstream = await self.proxy.connect()
        except OSError as error:
            raise UpstreamGoneError("no connection") from error
        return self.upstream


def reset(writer: asyncio.StreamWriter) -> None:
    """Close with a reset instead of an orderly end; connections in memory have no reset."""
    raw = writer.get_extra_info("socket")
    with suppress(OSError):  # it has been closed
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
