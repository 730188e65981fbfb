"""A raw asyncio server that plays slurmrestd by script: each request takes the next reply written
for its path.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.support.ports import free_ports


@dataclass(frozen=True)
class Peer:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


# It ends only what hangs.
_SECONDS: Final = 45.0
Reply = Callable[[Peer], Awaitable[bool]]

_TARGET = re.compile(r"/slurm/v0\.0\.(?P<version>\d+)/(?P<path>[^?]*)(?:\?(?P<query>.*))?")


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: str
    version: int
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def message(
    status: int, body: bytes, *, content_type: str = "application/json", close: bool = False
) -> bytes:
    lines = [f"HTTP/1.1 {status} WORD", f"Content-Type: {content_type}"]
    lines += [f"Content-Length: {len(body)}", "Connection: Close"] if close else []
    lines += [] if close else [f"Content-Length: {len(body)}", "Connection: Keep-Alive"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def raw(data: bytes, *, close: bool = False) -> Reply:
    async def reply(peer: Peer) -> bool:
        peer.writer.write(data)
        await peer.writer.drain()
        return not close

    return reply


def ok(body: Any) -> Reply:
    """As slurmrestd frames what it tells; what is no object is sent as it is."""
    return other({"errors": [], "warnings": []} | body if isinstance(body, dict) else body)


def other(body: Any) -> Reply:
    """JSON of whoever answers."""
    return raw(message(200, json.dumps(body).encode()))


def fail(status: int, body: Any, *, twice: bool = True) -> Reply:
    """An error answer; on 26.05.5 a second response follows on the same connection (measured)."""
    if isinstance(body, str):
        data = message(status, body.encode(), content_type="text/plain", close=True)
    else:
        data = message(status, json.dumps(body).encode(), close=True)
    if twice:
        data += message(status, b"Unspecified error", content_type="text/plain", close=True)
    return raw(data, close=True)


def error(number: int, *, status: int = 500, **more: Any) -> Reply:
    entry = {"error_number": number, "error": f"error {number}", "description": "words"}
    return fail(status, {"errors": [entry], "warnings": [], **more})


def cut() -> Reply:
    return raw(b"", close=True)


def hang(until: asyncio.Event | None = None) -> Reply:
    """No answer, until told or until the client is gone."""

    async def reply(peer: Peer) -> bool:
        told = (until or asyncio.Event()).wait()
        waits = {asyncio.ensure_future(told), asyncio.ensure_future(peer.reader.read(1))}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return False

    return reply


def drip(data: bytes, *, gap: float) -> Reply:
    async def reply(peer: Peer) -> bool:
        for byte in data:
            peer.writer.write(bytes([byte]))
            await asyncio.sleep(gap)
        return True

    return reply


@dataclass
class Server:
    versions: set[int] = field(default_factory=lambda: {42, 43, 44, 45})
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    url: str = ""
    _scripts: dict[str, deque[Reply]] = field(default_factory=lambda: defaultdict(deque))
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def on(self, what: str, *replies: Reply) -> None:
        """Replies for "METHOD path", in order; the last one serves for ever."""
        self._scripts[what].extend(replies)

    def calls(self, what: str) -> list[Seen]:
        return [seen for seen in self.seen if f"{seen.method} {seen.path}" == what]

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(_SECONDS), self.changed:
            await self.changed.wait_for(condition)

    async def start(self, *, unix: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        if unix is not None:
            self._server = await asyncio.start_unix_server(self._accept, str(unix))
            self.url = f"unix:{unix}"
            return
        # Of this test process alone: once this server has stopped, nobody else answers there.
        (port,) = free_ports(1)
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port, ssl=tls)
        self.url = f"http://127.0.0.1:{port}" if tls is None else f"https://localhost:{port}"

    async def drop_idle(self) -> None:
        """Close all connections from this side."""
        for writer in self._writers:
            writer.close()
        await self.until(lambda: self.open_connections == 0)

    def shut_idle(self) -> None:
        """End all connections from this side at once, as far as the client can tell."""
        for writer in self._writers:
            with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as again:
                again.shutdown(socket.SHUT_WR)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.connections += 1
        task = asyncio.create_task(self._serve(reader, writer, self.connections))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        await self._count(+1)
        try:
            await self._requests(reader, writer, number)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
            await self._count(-1)

    async def _count(self, change: int) -> None:
        self.open_connections += change
        async with self.changed:
            self.changed.notify_all()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> None:
        while True:
            seen = await _request(reader, number)
            self.seen.append(seen)
            async with self.changed:
                self.changed.notify_all()
            if not await self._reply(seen)(Peer(reader, writer)):
                return

    def _reply(self, seen: Seen) -> Reply:
        if seen.version not in self.versions:
            return fail(404, "Unable find requested URL")
        what = f"{seen.method} {seen.path}"
        script = self._scripts.get(what)
        if not script:
            return (
                ok({"pings": [{"responding": True, "status": "UP"}], "errors": []})
                if (what == "GET ping/")
                else fail(599, f"no script for {what}")
            )
        return script.popleft() if len(script) > 1 else script[0]


async def _request(reader: asyncio.StreamReader, number: int) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {
        k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    match = _TARGET.fullmatch(target)
    assert match is not None, target
    return Seen(
        method, match["path"], match["query"] or "", int(match["version"]), headers, body, number
    )
