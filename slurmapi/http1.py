"""HTTP/1.1 for one client: the bytes of a request, and reading the first response to it.

The socket is in `connection.py`, and which connection is used for what in `transport.py`.

h11 parses. This module adds what h11 leaves to its user: reading and waiting, and limits for what a
peer can make this process store and compute. slurmrestd 26.05.5 answers every failed request with
two responses on one connection (measured): only the first is read, and the bytes after it make the
connection unusable for another request.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import h11

from slurmapi.errors import SlurmGarbled, SlurmUnreadable

DEFAULT_MAX_BODY: Final = 1024 * 1024
# slurmrestd sends 200 bytes, and a proxy adds a few hundred.
MAX_HEAD_BYTES: Final = 8 * 1024
# The most that is read from a stream at a time.
PIECE_BYTES: Final = 64 * 1024
# After the head, h11 searches for the end of a line (the size of a chunk, or the trailer) in at
# most this many bytes plus one slice. Its pattern for a header field takes time that grows with the
# square of a run of blanks: 3 ms for 1 KiB (measured).
_MAX_LINE_BYTES: Final = 512
_SLICE_BYTES: Final = 512
# A chunk may have one byte of body and six around it, or more.
_MOST_WIRE_PER_BODY: Final = 8
# "100 Continue" and other interim responses, none of which we ask for.
_MOST_INTERIM: Final = 4
_END_OF_HEAD: Final = b"\r\n\r\n"
# A head must not contain any of these, and without them h11's patterns never backtrack.
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\r(?!\n)|(?<!\r)\n")
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


class Exchange:
    """One request and the response to it. `raw` is the whole request in one piece, so that a peer
    never sees a head without its body.
    """

    def __init__(self, request: Request, *, host: str, prefix: str = "") -> None:
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_LINE_BYTES)
        self._max_body = request.max_body
        self._unfed = memoryview(b"")
        self.raw = self._written(request, host, prefix)

    async def read(self, source: ByteSource) -> tuple[Response, bool]:
        """The response, and whether the connection can be used for another request.

        Raises CutShort, SlurmGarbled if the answer is not HTTP or is too large, and what the
        source raises.
        """
        head = await self._head(source)
        headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
        self._check(head, headers)
        body = await self._body(source, sliced="transfer-encoding" in headers)
        response = Response(status=head.status_code, headers=headers, body=body)
        return response, self._reusable(response)

    def _written(self, request: Request, host: str, prefix: str) -> bytes:
        fields = {"Host": host, **request.headers}
        if request.body is not None or request.method in {"POST", "PUT"}:
            fields["Content-Length"] = str(len(request.body or b""))
        head = h11.Request(
            method=request.method,
            target=prefix + request.target,
            headers=_with_fields(tuple(fields.items())).headers,
        )
        body = (h11.Data(data=request.body),) if request.body else ()
        return b"".join(self._http.send(it) or b"" for it in (head, *body, h11.EndOfMessage()))

    async def _head(self, source: ByteSource) -> h11.Response:
        for _ in range(1 + _MOST_INTERIM):
            self._http.receive_data(await self._raw_head(source))
            event = self._next_event()
            if isinstance(event, h11.Response):
                return event
        raise SlurmGarbled(f"more than {_MOST_INTERIM} interim responses")

    async def _raw_head(self, source: ByteSource) -> bytes:
        """The bytes of a head and nothing else: those after it are kept."""
        raw, searched = bytes(self._unfed), 0
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
        found = _CONTROL.search(raw, 0, size)
        if found is not None:
            raise SlurmGarbled(f"control character {found.group()!r} in a response head")
        self._unfed = memoryview(raw)[size:]
        return raw[:size]

    def _check(self, head: h11.Response, headers: Mapping[str, str]) -> None:
        if head.http_version not in {b"1.0", b"1.1"} or head.status_code > 599:
            version = head.http_version.decode("ascii", "replace")
            raise SlurmGarbled(f"HTTP/{version} with status {head.status_code}")
        length = headers.get("content-length")
        if length is None:
            return
        if "transfer-encoding" in headers:
            raise SlurmGarbled("a transfer coding and a content length")
        self._check_size(int(length))

    def _check_size(self, size: int) -> None:
        if size > self._max_body:
            raise SlurmUnreadable(f"response of {size} bytes, the limit is {self._max_body}")

    async def _body(self, source: ByteSource, *, sliced: bool) -> bytes:
        body, taken = bytearray(), 0
        while True:
            event = self._next_event()
            if isinstance(event, h11.Data):
                body += event.data
                self._check_size(len(body))
            elif event is h11.NEED_DATA:
                taken += await self._feed(source, sliced=sliced)
                self._check_size(taken // _MOST_WIRE_PER_BODY)
            else:
                return bytes(body)

    async def _feed(self, source: ByteSource, *, sliced: bool) -> int:
        """Pass the next bytes to h11; in small slices if there may be lines among them."""
        if not self._unfed:
            self._unfed = memoryview(await source.read(PIECE_BYTES))
        elif sliced:
            await asyncio.sleep(0)  # there may be many small chunks: let other tasks run
        size = _SLICE_BYTES if sliced else len(self._unfed)
        data, self._unfed = self._unfed[:size], self._unfed[size:]
        self._http.receive_data(bytes(data))
        return len(data)

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            if self._http.trailing_data[1]:  # the stream has ended
                raise CutShort(answered=True) from None
            raise SlurmGarbled(f"no HTTP/1.1: {str(error)[:80]}") from None

    def _reusable(self, response: Response) -> bool:
        left = bool(self._unfed) or bool(self._http.trailing_data[0])
        # slurmrestd closes the connection after every error, whatever it says (measured, 24.11 and
        # 26.05).
        return self._http.their_state is h11.DONE and response.status < 400 and not left


@lru_cache(maxsize=64)
def _with_fields(fields: tuple[tuple[str, str], ...]) -> h11.Request:
    """A request with these header fields, which h11 has checked. Most requests have the same fields
    as an earlier one. To check them takes 8 of the 60 microseconds that h11 and this module need
    for a request and its response (measured).
    """
    return h11.Request(method="GET", target="/", headers=list(fields))
