"""HTTP/1.1 as far as one client needs it: write a request, read exactly the first response that
follows.

slurmrestd 26.05.5 answers every failed request with two responses on one connection (measured);
strict clients lose the first one. This reader takes the first by its Content-Length and reports
the connection as spent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slurmapi.errors import SlurmGarbled

MAX_HEAD_BYTES: Final = 64 * 1024
_PIECE: Final = 64 * 1024
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.(?P<minor>[01]) (?P<status>[1-5][0-9]{2})(?: .*)?")
_FIELD: Final = re.compile(rb"(?P<name>[!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(?P<value>.*?)[ \t]*")
_CHUNK_SIZE: Final = re.compile(rb"(?P<size>[0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request; `repeatable` says that carrying it out twice does no harm, `slow` that the
    server may take long over the answer.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    repeatable: bool = False
    slow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The first response to a request. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx, which alone is no success with slurmrestd."""
        return 200 <= self.status <= 299

    @property
    def retry_after(self) -> float | None:
        """The Retry-After header in seconds; its date form is not understood and gives None."""
        value = self.headers.get("retry-after", "")
        return float(value) if value.isascii() and value.isdigit() and len(value) < 7 else None


class CutShort(Exception):  # noqa: N818 - an event inside the transport, not an error of callers
    """The peer ended the connection; `answered` says whether any response byte had come."""

    def __init__(self, *, answered: bool) -> None:
        super().__init__("the peer closed the connection")
        self.answered = answered


def written(request: Request, *, host: str, prefix: str = "") -> bytes:
    """The bytes of `request`; in one piece, so that a peer never sees a head without its body."""
    fields = {"Host": host, **request.headers}
    if request.body is not None or request.method in {"POST", "PUT"}:
        fields["Content-Length"] = str(len(request.body or b""))
    lines = [f"{request.method} {prefix}{request.target} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in fields.items()]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (request.body or b"")


@dataclass(frozen=True, slots=True)
class _Head:
    minor: int
    status: int
    headers: Mapping[str, str]

    @property
    def reusable(self) -> bool:
        connection = self.headers.get("connection", "").lower()
        # Every error answer ends the connection, whatever it says (measured on 24.11 and 26.05).
        return self.minor == 1 and "close" not in connection and self.status < 400

    @property
    def bodiless(self) -> bool:
        return self.status in {204, 304}


class ResponseReader:
    """Reads responses off one stream. Each wait for bytes ends after `silence` seconds with
    TimeoutError.
    """

    def __init__(self, stream: asyncio.StreamReader, *, silence: float, max_body: int) -> None:
        self._stream = stream
        self._silence = silence
        self._max_body = max_body

    async def read(self) -> tuple[Response, bool]:
        """The next response, and whether the connection may carry another request.

        Raises CutShort, TimeoutError, or SlurmGarbled for anything that is no HTTP or too large.
        """
        head = await self._head()
        while head.status < 200:
            head = await self._head()
        body, bounded = await self._body(head)
        response = Response(status=head.status, headers=head.headers, body=body)
        return response, head.reusable and bounded

    async def _head(self) -> _Head:
        try:
            async with asyncio.timeout(self._silence):
                raw = await self._stream.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as cut:
            if cut.partial and not b"HTTP/1.".startswith(cut.partial[:7]):
                raise SlurmGarbled("the peer does not speak HTTP/1.1") from None
            raise CutShort(answered=bool(cut.partial)) from None
        except asyncio.LimitOverrunError:
            raise SlurmGarbled(f"response head above {MAX_HEAD_BYTES} bytes") from None
        return _parsed_head(raw[:-4])

    async def _body(self, head: _Head) -> tuple[bytes, bool]:
        """The body, and whether its end was marked by something other than the end of the
        connection.
        """
        if head.bodiless:
            return b"", True
        coding = head.headers.get("transfer-encoding", "").lower()
        length = head.headers.get("content-length")
        if coding and (coding != "chunked" or length is not None):
            raise SlurmGarbled(f"transfer coding {coding[:40]!r} with content length {length!r}")
        if coding:
            return await self._chunked(), True
        if length is not None:
            return await self._exactly(self._checked(length)), True
        return await self._until_end(), False

    def _checked(self, length: str) -> int:
        if not (length.isascii() and length.isdigit() and len(length) <= 15):
            raise SlurmGarbled(f"content length {length[:40]!r} is no number")
        self._bound(int(length))
        return int(length)

    def _bound(self, size: int) -> None:
        if size > self._max_body:
            raise SlurmGarbled(f"response of {size} bytes, the limit is {self._max_body}")

    async def _exactly(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0:
            piece = await self._piece(min(size, _PIECE))
            if not piece:
                raise CutShort(answered=True)
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    async def _until_end(self) -> bytes:
        body = bytearray()
        while piece := await self._piece(_PIECE):
            body += piece
            self._bound(len(body))
        return bytes(body)

    async def _chunked(self) -> bytes:
        body = bytearray()
        while size := await self._chunk_size():
            self._bound(len(body) + size)
            body += await self._exactly(size)
            if await self._exactly(2) != b"\r\n":
                raise SlurmGarbled("chunk without its end")
        while await self._line() != b"\r\n":
            pass  # trailer fields say nothing to us
        return bytes(body)

    async def _chunk_size(self) -> int:
        line = await self._line()
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise SlurmGarbled(f"chunk size {line[:40]!r}")
        return int(match["size"], 16)

    async def _line(self) -> bytes:
        try:
            async with asyncio.timeout(self._silence):
                return await self._stream.readuntil(b"\r\n")
        except asyncio.IncompleteReadError:
            raise CutShort(answered=True) from None
        except asyncio.LimitOverrunError:
            raise SlurmGarbled(f"line above {MAX_HEAD_BYTES} bytes in a response") from None

    async def _piece(self, size: int) -> bytes:
        async with asyncio.timeout(self._silence):
            return await self._stream.read(size)


def _parsed_head(raw: bytes) -> _Head:
    first, *lines = raw.split(b"\r\n")
    start = _STATUS_LINE.fullmatch(first)
    if start is None:
        raise SlurmGarbled(f"no HTTP/1.1 status line: {first[:40]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        match = _FIELD.fullmatch(line)
        if match is None:
            raise SlurmGarbled(f"malformed header field {line[:40]!r}")
        name, value = match["name"].decode("ascii").lower(), match["value"].decode("latin-1")
        if name == "content-length" and headers.get(name, value) != value:
            raise SlurmGarbled("two content lengths that differ")
        headers[name] = value
    return _Head(int(start["minor"]), int(start["status"]), headers)
