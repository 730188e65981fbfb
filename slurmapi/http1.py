"""HTTP/1.1 for one client: the bytes of a request, and reading the first response to it.

The socket is in `connection.py`, and which connection is used for what in `transport.py`.

httptools parses heads and chunks. This module adds what httptools leaves to its user: reading and
waiting, and limits for what a peer can make this process store and compute. slurmrestd 26.05.5
answers every failed request with two responses on one connection (measured): only the first is
read, and the bytes after it make the connection unusable for another request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

from httptools import HttpParserCallbackError, HttpParserError, HttpResponseParser

from slurmapi.errors import SlurmGarbled, SlurmUnreadable

DEFAULT_MAX_BODY: Final = 1024 * 1024
# slurmrestd sends 200 bytes, and a proxy adds a few hundred.
MAX_HEAD_BYTES: Final = 8 * 1024
# The most that is read from a stream at a time.
PIECE_BYTES: Final = 64 * 1024
# A chunk may have one byte of body and six around it, or more.
_MOST_WIRE_PER_BODY: Final = 8
# A chunk may have an extension, and the last one is followed by a trailer. httptools keeps a field
# of the trailer until its end.
_MOST_BETWEEN_CHUNKS: Final = 1024
# So many bytes of chunks with one byte each take 0.02 ms (measured).
_SLICE_BYTES: Final = 1024
# Of a size in bytes: 2**64 has 20.
_MOST_DIGITS: Final = 20
# "100 Continue" and other interim responses, none of which we ask for.
_MOST_INTERIM: Final = 4
_END_OF_HEAD: Final = b"\r\n\r\n"
_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_METHOD: Final = re.compile(r"[A-Z]+")
_TARGET: Final = re.compile(r"[!-~]+")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"(?:[!-~](?:[ !-~]*[!-~])?)?")
# A proxy may ask for a day. A caller that has to wait longer than this does so in several pauses.
LONGEST_PAUSE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. `repeatable` says that it does no harm if it is carried out twice, and `slow`
    that the server may take long to answer. `bulk` says that it may have to wait for others: some
    connections are never given to such requests. At most `max_body` bytes of the answer are
    accepted. No byte of a write is sent after `send_by`, in the event loop's time.
    """

    method: str
    target: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes | None = field(default=None, repr=False)
    repeatable: bool = False
    slow: bool = False
    bulk: bool = False
    max_body: int = DEFAULT_MAX_BODY
    send_by: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The first response to a request. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the status is 2xx. With slurmrestd that alone does not mean success."""
        return 200 <= self.status <= 299

    @property
    def retry_after(self) -> float | None:
        """The Retry-After header in seconds, at most `LONGEST_PAUSE_SECONDS`; None if there is none
        or if it is a date.
        """
        value = self.headers.get("retry-after", "")
        if not (value.isascii() and value.isdigit()):
            return None
        return min(float(value), LONGEST_PAUSE_SECONDS)


class ByteSource(Protocol):
    """Where the bytes of a response come from."""

    async def read(self, most: int, /) -> bytes:
        """The next bytes, at most so many; none at the end."""
        ...


class CutShort(Exception):  # noqa: N818 - an event inside the transport, not an error of callers
    """The peer closed the connection. `answered` is true if it did so in order, after some bytes of
    a response; a reset counts as unanswered.
    """

    def __init__(self, *, answered: bool) -> None:
        super().__init__("the peer closed the connection")
        self.answered = answered


class _Parsed:
    """What httptools calls while it parses a head, and then the chunks after it."""

    def __init__(self, max_body: int) -> None:
        self._max_body = max_body
        self._in_head = True
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.complete = False
        self.surplus = False

    def on_message_begin(self) -> None:
        """A response has begun. Only the first is read."""
        self.surplus = self.complete

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a field of the head, but not one of a trailer."""
        if self._in_head:
            key, text = name.decode("ascii").lower(), value.decode("latin-1").strip(" ")
            self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._in_head = False

    def on_body(self, data: bytes) -> None:
        """Keep a part of the body. Raises SlurmGarbled if it becomes too large."""
        if not self.complete:
            self.body += data
            _check_size(len(self.body), self._max_body)

    def on_message_complete(self) -> None:
        """The response has ended."""
        self.complete = True


class _Parser:
    """httptools' parser and what it has found. The latter does not refer to the parser: so both are
    freed at once, not by a collection of garbage.
    """

    def __init__(self, max_body: int) -> None:
        self.found = _Parsed(max_body)
        self._http = HttpResponseParser(self.found)

    @property
    def status(self) -> int:
        """The status code. Raises SlurmGarbled for a head that no answer of HTTP/1.1 has."""
        version, status = self._http.get_http_version(), self._http.get_status_code()
        known = version in {"1.0", "1.1"} and 100 <= status <= 599
        if not known or status == HTTPStatus.SWITCHING_PROTOCOLS:
            raise SlurmGarbled(f"HTTP/{version} with status {status}")
        return status

    @property
    def keeps_alive(self) -> bool:
        """Whether the peer keeps the connection after this response, and has sent nothing else.
        httptools no longer says it when the response has ended.
        """
        options = {it.strip() for it in self.found.headers.get("connection", "").lower().split(",")}
        kept = "keep-alive" in options or self._http.get_http_version() == "1.1"
        return kept and "close" not in options and not self.found.surplus

    def feed(self, data: bytes | memoryview) -> None:
        """Parse the next bytes. Raises SlurmGarbled."""
        try:
            self._http.feed_data(data)
        except HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except HttpParserError as error:
            if not self.found.complete:
                raise SlurmGarbled(f"no HTTP/1.1: {str(error)[:80]}") from None
            self.found.surplus = True


class Exchange:
    """One request and the response to it. `raw` is the whole request in one piece, so that a peer
    never sees a head without its body. Raises ValueError if the request has a character that HTTP
    does not allow.
    """

    def __init__(self, request: Request, *, host: str, prefix: str = "") -> None:
        self._max_body = request.max_body
        self._unread = memoryview(b"")
        self.raw = _written(request, host, prefix)

    async def read(self, source: ByteSource) -> tuple[Response, bool]:
        """The response, and whether the connection can be used for another request.

        Raises CutShort, SlurmGarbled if the answer is not HTTP or is too large, and what the
        source raises.
        """
        status, parser = await self._head(source)
        headers = parser.found.headers
        coding, length = headers.get("transfer-encoding"), headers.get("content-length")
        has_end = True
        if status in _WITHOUT_BODY:
            body = b""
        elif coding is not None:
            if coding.lower() != "chunked":
                raise SlurmGarbled(f"transfer coding {coding[:40]!r}, expected chunked")
            body = await self._chunks(source, parser)
        elif length is not None:
            body = await self._sized(source, _size_of(length))
        else:
            body, has_end = await self._until_end(source), False
        # slurmrestd closes the connection after every error, whatever it says (measured, 24.11 and
        # 26.05).
        reusable = status < 400 and has_end and not self._unread and parser.keeps_alive
        return Response(status=status, headers=headers, body=body), reusable

    async def _head(self, source: ByteSource) -> tuple[int, _Parser]:
        """The status of the response that is no interim one, and what has parsed its head."""
        for _ in range(1 + _MOST_INTERIM):
            parser = _Parser(self._max_body)
            parser.feed(await self._raw_head(source))
            status = parser.status
            if status >= HTTPStatus.OK:
                return status, parser
        raise SlurmGarbled(f"more than {_MOST_INTERIM} interim responses")

    async def _raw_head(self, source: ByteSource) -> bytes:
        """The bytes of a head and nothing else: those after it are kept."""
        raw, searched = bytes(self._unread), 0
        while (end := raw.find(_END_OF_HEAD, searched)) < 0 and len(raw) <= MAX_HEAD_BYTES:
            searched = max(0, len(raw) - len(_END_OF_HEAD) + 1)
            piece = await source.read(PIECE_BYTES)
            if not piece:
                if raw and not b"HTTP/1.".startswith(raw[:7]):
                    raise SlurmGarbled("the peer does not speak HTTP/1.1")
                raise CutShort(answered=bool(raw))
            raw += piece
        size = end + len(_END_OF_HEAD)
        if end < 0 or size > MAX_HEAD_BYTES:
            raise SlurmGarbled(f"response head above {MAX_HEAD_BYTES} bytes")
        self._unread = memoryview(raw)[size:]
        return raw[:size]

    async def _sized(self, source: ByteSource, size: int) -> bytes:
        _check_size(size, self._max_body)
        body = bytearray()
        while (missing := size - len(body)) > 0:
            piece = await self._next(source)
            body += piece[:missing]
            self._unread = piece[missing:]
        return bytes(body)

    async def _until_end(self, source: ByteSource) -> bytes:
        body = bytearray(self._unread)
        self._unread = memoryview(b"")
        _check_size(len(body), self._max_body)
        while piece := await source.read(PIECE_BYTES):
            body += piece
            _check_size(len(body), self._max_body)
        return bytes(body)

    async def _chunks(self, source: ByteSource, parser: _Parser) -> bytes:
        found = parser.found
        taken = between = 0
        while not found.complete:
            data = await self._next(source)
            had = len(found.body)
            piece, self._unread = data[:_SLICE_BYTES], data[_SLICE_BYTES:]
            parser.feed(piece)
            taken += len(piece)
            _check_size(taken // _MOST_WIRE_PER_BODY, self._max_body)
            between = 0 if len(found.body) > had else between + len(piece)
            if between > _MOST_BETWEEN_CHUNKS and not found.complete:
                raise SlurmGarbled(f"more than {_MOST_BETWEEN_CHUNKS} bytes between two chunks")
            await asyncio.sleep(0)  # there may be many small chunks: let other tasks run
        return bytes(found.body)

    async def _next(self, source: ByteSource) -> memoryview:
        """The next bytes of the body. Raises CutShort if there are none."""
        data = self._unread or memoryview(await source.read(PIECE_BYTES))
        if not data:
            raise CutShort(answered=True)
        self._unread = memoryview(b"")
        return data


def _size_of(length: str) -> int:
    """The value of Content-Length, of which httptools has checked that it has digits only. Raises
    SlurmGarbled for so many digits that Python does not read them.
    """
    if len(length) > _MOST_DIGITS:
        raise SlurmGarbled(f"Content-Length of {len(length)} digits")
    return int(length)


def _check_size(size: int, limit: int) -> None:
    """Raises SlurmUnreadable if a body of `size` bytes is above the limit."""
    if size > limit:
        raise SlurmUnreadable(f"response of {size} bytes, the limit is {limit}")


def _written(request: Request, host: str, prefix: str) -> bytes:
    method, target, body = request.method, prefix + request.target, request.body or b""
    if not (_METHOD.fullmatch(method) and _TARGET.fullmatch(target)):
        raise ValueError(f"{method[:20]!r} {target[:100]!r} cannot be the first line of a request")
    fields = _fields((("Host", host), *request.headers.items()))
    has_length = request.body is not None or method in {"POST", "PUT"}
    length = f"Content-Length: {len(body)}\r\n" if has_length else ""
    head = f"{method} {target} HTTP/1.1\r\n{fields}{length}\r\n"
    return head.encode("ascii") + body


@lru_cache(maxsize=64)
def _fields(fields: tuple[tuple[str, str], ...]) -> str:
    """The lines of these header fields, which most requests have in common. An error does not show
    a value, which may be a token.
    """
    for name, value in fields:
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise ValueError(f"the header {name[:40]!r} has a character that HTTP does not allow")
    return "".join(f"{name}: {value}\r\n" for name, value in fields)
