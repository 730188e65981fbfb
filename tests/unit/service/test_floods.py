"""What thousands of connections cost a listener, in a process of its own, on real sockets."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import trustme

from scheduler.hooks.api import MOST_WAITS
from scheduler.listen import descriptors
from scheduler.listen.listener import FACE, HOOKS, HOOKS_TLS, STRANGER_SECONDS
from tests.support.flood import Flood

_SERVER: Final = """
import asyncio, logging, ssl, sys
from aiohttp import web
from scheduler.listen import descriptors
from scheduler.listen import listener
from scheduler.observe import logs
from scheduler.config.settings import Address

async def main(kind, patience, *pem):
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(descriptors.AcceptErrors(loop.time))
    async def ok(request):
        return web.Response(text="ok")
    app = web.Application(middlewares=[listener.one_request])
    app.router.add_get("/healthz", ok)
    tls = None
    if pem:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*pem)
    seconds = float(patience)
    it = listener.Listener(
        getattr(listener, kind), stranger_seconds=seconds, handshake_seconds=seconds
    )
    print(await it.open(app, Address(host="0.0.0.0", port=0), tls=tls), flush=True)
    await asyncio.Event().wait()

logs.set_up("info", "json")
descriptors.raise_limit()
asyncio.run(main(*sys.argv[1:]))
"""
_MIB: Final = 1024
_FLOOD: Final = 4000
# Seconds that a listener gives those who say nothing, where a test is about something else: enough
# for a busy machine to do before. The other test waits until they are over.
_PATIENCE: Final = 40
_TLS_PATIENCE: Final = 12
# A TLS connection that has begun a handshake costs some 300 KiB, and 256 are kept: 109 MiB at the
# most (measured).
_MOST_KIB: Final = 160 * _MIB


class Server:
    """A listener in a process of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                preexec_fn=_small_limit,  # noqa: PLW1509 - no thread of ours runs here
            )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    @property
    def kib(self) -> int:
        """The most that it ever had in memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1])

    @property
    def sockets(self) -> int:
        """How many connections it holds."""
        folder = Path(f"/proc/{self._process.pid}/fd")
        count = 0
        for entry in folder.iterdir():
            with suppress(OSError):
                count += os.readlink(entry).startswith("socket:")
        return count - 3  # the listener, and the loop's own pair

    @property
    def limits(self) -> str:
        """What the kernel says it may have."""
        return Path(f"/proc/{self._process.pid}/limits").read_text()

    @property
    def lines(self) -> list[str]:
        """What it has logged."""
        return self._log.read_text().splitlines()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _small_limit() -> None:
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))


@pytest.fixture(autouse=True)
def _room() -> None:
    descriptors.raise_limit()
    if descriptors.descriptors() < 2 * _FLOOD:
        pytest.skip("the hard limit of file descriptors is too low for a flood")


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=_PATIENCE - 10)
    ) as session:
        yield session


@pytest.fixture
def face(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, "FACE", str(STRANGER_SECONDS))
    yield server
    server.stop()


@pytest.fixture
def patient_face(tmp_path: Path) -> Iterator[Server]:
    """It cuts nobody off as long as a test takes: what is bounded is so by the places alone."""
    server = Server(tmp_path, "FACE", str(_PATIENCE))
    yield server
    server.stop()


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def hooks(tmp_path: Path, authority: trustme.CA) -> Iterator[Server]:
    """With TLS."""
    leaf = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    leaf.private_key_pem.write_to_path(key)
    leaf.cert_chain_pems[0].write_to_path(cert)
    server = Server(tmp_path, "HOOKS_TLS", str(_TLS_PATIENCE), str(cert), str(key))
    yield server
    server.stop()


async def _fewer_than(server: Server, count: int, *, seconds: float) -> None:
    by = time.monotonic() + seconds
    while server.sockets > count:
        assert time.monotonic() < by, f"{server.sockets} connections are still held"
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("addresses", [1, 7])
@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.1\r\nHost:"], ids=["silent", "half a head"])
async def test_probe_is_answered_beside_a_flood(patient_face, http, addresses, words):
    face = patient_face
    async with Flood(face.port, addresses=addresses, words=words) as flood:
        await flood.open(1100)
        for _ in range(5):
            async with http.get(f"http://127.0.0.1:{face.port}/healthz") as answer:
                assert (answer.status, await answer.text()) == (200, "ok")
        share = FACE.share if addresses == 1 else FACE.strangers
        await _fewer_than(face, share, seconds=_PATIENCE - 10)
    assert face.lines == []


async def test_flood_that_stays_silent_is_cut_off(face):
    async with Flood(face.port, addresses=7) as flood:
        await flood.open(200)
        await _fewer_than(face, 0, seconds=45)
    assert face.lines == []


async def test_caller_who_shares_the_address_of_a_flood_is_served_in_time(face, http):
    """Behind a NAT both have one address."""
    async with Flood(face.port, addresses=1) as flood:
        await flood.open(1100)
        connector = aiohttp.TCPConnector(local_addr=("127.0.1.1", 0))
        async with aiohttp.ClientSession(connector=connector) as neighbour:
            async with asyncio.timeout(45):
                while True:
                    with suppress(aiohttp.ClientError):
                        async with neighbour.get(f"http://127.0.0.1:{face.port}/healthz") as answer:
                            assert answer.status == 200
                            break
                    await asyncio.sleep(0.1)


@pytest.mark.parametrize("words", [b"", b"\x16"], ids=["silent", "half a hello"])
async def test_silent_tls_connections_are_counted_when_accepted(hooks, authority, http, words):
    before = hooks.kib
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with Flood(hooks.port, addresses=7, words=words) as flood:
        await flood.open(_FLOOD)
        await _fewer_than(hooks, HOOKS_TLS.strangers, seconds=_TLS_PATIENCE - 2)
        assert hooks.kib - before < _MOST_KIB
        url = f"https://127.0.0.1:{hooks.port}/healthz"
        async with http.get(url, ssl=trusting) as answer:
            assert answer.status == 200
        await _fewer_than(hooks, 1, seconds=40)
    assert hooks.lines == []


async def test_garbage_fills_no_log(face, http):
    # Not all that is no HTTP is worth a line to aiohttp; this is.
    garbage = b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n"
    async with Flood(face.port, addresses=3, words=garbage) as flood:
        await flood.open(1100)
        async with http.get(f"http://127.0.0.1:{face.port}/healthz") as answer:
            assert answer.status == 200
    assert 1 <= sum("Error handling request" in it for it in face.lines) <= 10
    assert sum(map(len, face.lines)) < 64 * 1024


def test_limit_of_descriptors_is_raised(face):
    limits = face.limits
    found = re.search(r"Max open files\s+(\d+)", limits)
    assert found is not None
    assert int(found[1]) > 1024


def test_no_descriptor_left_is_said_once_a_minute(capsys):
    now = 0.0
    handler = descriptors.AcceptErrors(lambda: now)
    loop = asyncio.new_event_loop()
    for _ in range(100):
        handler(loop, {"message": "", "exception": OSError(24, "Too many open files")})
    now += 61
    handler(loop, {"message": "", "exception": OSError(24, "Too many open files")})
    loop.close()
    output = capsys.readouterr()
    assert (output.out + output.err).count("connections are not accepted") == 2


def test_hundreds_of_waits_and_some_strangers_have_a_place():
    for capacity in (HOOKS, HOOKS_TLS):
        assert capacity.connections - capacity.strangers >= 2 * MOST_WAITS
