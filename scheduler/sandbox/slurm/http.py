"""The HTTP/1.1 of slurmrestd: keep-alive, and its unusual answers to failed requests.

26.05.5 answers a failed request twice: the answer is followed at once by a second one in
text/plain, and both have ``Connection: Close``. 24.11.5 sends one answer. Both releases then close
the connection (measured). No HTTP library can be made to do that, so this module writes the bytes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

_REASONS: Final = {
    200: "OK",
    304: "NOT MODIFIED",
    400: "BAD REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT FOUND",
    415: "UNSUPPORTED MEDIA TYPE",
    422: "UNPROCESSABLE CONTENT",
    500: "INTERNAL ERROR",
    502: "BAD GATEWAY",
    511: "Network Authentication Required",
}
MOST_HEAD_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. ``query`` is the raw query string; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; ``text`` is the body of the second answer to a failed request."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    text: str = field(default="")

    @classmethod
    def plain(cls, status: int, text: str) -> "Answer":
        """Return a text/plain answer."""
        return cls(status, text.encode(), "text/plain", text)

    def encode(self, *, twice: bool) -> bytes:
        """Return the bytes to send."""
        if self.status == 304:
            return b"HTTP/1.1 304 NOT MODIFIED\r\nContent-Length: 0\r\n\r\n"
        first = _encode(self.status, self.content_type, self.body)
        if self.status == 200 or not twice:
            return first
        return first + _encode(self.status, "text/plain", self.text.encode())


Handler = Callable[[Asked], Awaitable[Answer]]


async def serve(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    handler: Handler,
    *,
    twice: bool,
) -> None:
    """Answer the requests of one connection until either side closes it."""
    try:
        while (asked := await read_request(reader)) is not None:
            answer = await handler(asked)
            writer.write(answer.encode(twice=twice))
            await writer.drain()
            if answer.status not in (200, 304):
                break
    except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()


async def read_request(reader: asyncio.StreamReader) -> Asked | None:
    """Return the next request, None if the peer closed the connection after the last one.

    Raises asyncio.IncompleteReadError if the peer closed it in the middle of a request.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    first, *lines = head[:-4].decode("latin-1").split("\r\n")
    method, target, _ = f"{first}  ".split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    path, _, query = target.partition("?")
    length = headers.get("content-length", "")
    body = await reader.readexactly(int(length)) if length.isdigit() else b""
    return Asked(method, path, query, headers, body)


def _encode(status: int, content_type: str, body: bytes) -> bytes:
    close = "" if status == 200 else "Connection: Close\r\n"
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\n{close}Content-Length: {len(body)}\r\n"
        f"Content-Type: {content_type}\r\n\r\n"
    )
    return head.encode("latin-1") + body
