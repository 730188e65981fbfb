"""Connections that say nothing, without end, from a process of their own.

The honest tenant's clock is in another process, which thousands of connections would hold up as
much as the scheduler. Ends, and prints how many there were, when its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

_REOPEN_SECONDS: Final = 0.5
_CONNECT_SECONDS: Final = 30.0
_END_SECONDS: Final = 20.0
# Real attackers use machines of their own, so these must not take CPU time from the scheduler.
_NICE: Final = 10


@dataclass(frozen=True, slots=True)
class Face:
    """A port, and whether one in two connections is to end a TLS handshake first."""

    name: str
    port: int
    tls: bool


class SilentProcess:
    """The process that holds the connections, as its parent sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, faces: tuple[Face, ...], each: int) -> SilentProcess:
        """Start the process; it holds `each` connections to each face."""
        words = (f"{it.name}:{it.port}:{int(it.tls)}" for it in faces)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.tenants.silent", str(each), *words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        return cls(process)

    async def end(self) -> Mapping[str, int]:
        """End the process; returns how many connections there were, by the name of the face."""
        async with asyncio.timeout(_END_SECONDS):
            output, _errors = await self._process.communicate(b"")  # which closes its input
        counts: dict[str, int] = json.loads(output)
        return counts


class _Silent:
    def __init__(self) -> None:
        self.done: dict[str, int] = {}
        # Shared, because each new context reads the machine's CA certificates, which are not used.
        self._trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._trusting.check_hostname, self._trusting.verify_mode = False, ssl.CERT_NONE

    async def hold(self, face: Face, *, secured: bool) -> None:
        """Hold a connection that sends nothing, and open it again when it is closed."""
        tls = self._trusting if secured else None
        while True:
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection("127.0.0.1", face.port, ssl=tls)
                self.done[face.name] = self.done.get(face.name, 0) + 1
                try:
                    await reader.read()
                finally:
                    writer.transport.abort()
            await asyncio.sleep(_REOPEN_SECONDS)


async def _run(faces: list[Face], each: int) -> dict[str, int]:
    silent = _Silent()
    holding = [
        asyncio.create_task(silent.hold(face, secured=face.tls and number % 2 == 0))
        for face in faces
        for number in range(each)
    ]
    await asyncio.to_thread(sys.stdin.read)
    for task in holding:
        task.cancel()
    return silent.done


def _face(word: str) -> Face:
    name, port, tls = word.split(":")
    return Face(name, int(port), bool(int(tls)))


def main() -> None:
    """`python -m benchmarks.tenants.silent EACH NAME:PORT:TLS...`."""
    os.nice(_NICE)
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    each, *words = sys.argv[1:]
    print(json.dumps(asyncio.run(_run([_face(it) for it in words], int(each)))))


if __name__ == "__main__":
    main()
