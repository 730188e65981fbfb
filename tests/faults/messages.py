"""HTTP/1.1 for a proxy: finds where messages begin and end, and keeps their bytes unchanged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

LONGEST_HEAD: Final = 256 * 1024
_PIECE: Final = 64 * 1024
_BODILESS: Final = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class Head:
    """A start line and its fields; names are in lower case, `raw` ends with the empty line."""

    raw: bytes
    start: tuple[str, str, str]
    fields: dict[str, str]

    @property
    def method(self) -> str:
        """The method of a request."""
        return self.start[0]

    @property
    def target(self) -> str:
        """Path and query of a request."""
        return self.start[1]

    @property
    def status(self) -> int:
        """The status of an answer."""
        return int(self.start[1])

    @property
    def closes(self) -> bool:
        """Whether the connection is closed after this message."""
        return "close" in self.fields.get("connection", "").lower()

    @property
    def _length(self) -> int | None:
        said = self.fields.get("content-length")
        return None if said is None else int(said)

    @property
    def _chunked(self) -> bool:
        return self.fields.get("transfer-encoding", "").lower() == "chunked"


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, None if the peer closes before it; IncompleteReadError if within it."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        if cut.partial:
            raise
        return None
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    one, two, three = f"{first}  ".split(" ", 2)
    fields = (line.partition(":") for line in lines)
    return Head(raw, (one, two, three), {name.lower(): value.strip() for name, _, value in fields})


async def request_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """The bytes of a request's body; empty without a length or chunks."""
    if head._chunked:
        return b"".join([piece async for piece in _chunks(reader)])
    return await reader.readexactly(head._length or 0)


async def answer_pieces(reader: asyncio.StreamReader, head: Head) -> AsyncIterator[bytes]:
    """The body of an answer as it arrives: whole chunks with their framing, or pieces of it."""
    if head.status in _BODILESS:
        return
    if head._chunked:
        async for piece in _chunks(reader):
            yield piece
        return
    async for piece in _span(reader, head._length):
        yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            yield line + await _trailer(reader)
            return
        yield line + await reader.readexactly(size + 2)


async def _trailer(reader: asyncio.StreamReader) -> bytes:
    lines = [await reader.readuntil(b"\r\n")]
    while lines[-1] != b"\r\n":
        lines.append(await reader.readuntil(b"\r\n"))
    return b"".join(lines)


async def _span(reader: asyncio.StreamReader, length: int | None) -> AsyncIterator[bytes]:
    left = length
    while left is None or left > 0:
        piece = await reader.read(_PIECE if left is None else min(left, _PIECE))
        if not piece and left is None:
            return
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left = None if left is None else left - len(piece)
        yield piece


def payload(head: Head, piece: bytes) -> bytes:
    """The content of a piece, without the framing of a chunk."""
    if not head._chunked:
        return piece
    line, _, rest = piece.partition(b"\r\n")
    return rest[: int(line.partition(b";")[0], 16)]


def chunk(data: bytes) -> bytes:
    """The data as one chunk; empty for no data, because an empty chunk ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def written(
    status: int,
    body: bytes,
    *,
    content_type: str = "application/json",
    fields: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """The bytes of an answer that the proxy makes up itself."""
    lines = [f"HTTP/1.1 {status} Fault", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {content_type}", *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode() + body
