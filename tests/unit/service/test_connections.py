"""What one connection costs a listener, by counts; and how connections are accepted."""

from __future__ import annotations

import asyncio
import gzip
import os
import resource
import select
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any
from unittest import mock

import pytest
from aiohttp import web

from scheduler.config.settings import Address
from scheduler.listen import acceptor
from scheduler.listen.acceptor import MOST_A_TURN, Acceptor
from scheduler.listen.listener import HANDSHAKE_SECONDS, STRANGER_SECONDS, Listener, one_request
from scheduler.listen.places import Capacity
from tests.support.ports import free_ports

HERE = Address(host="127.0.0.1", port=0)
# 58 are made; with a task and a transport for each it was 178 (measured).
MOST_CALLS = 100
CROWD = 90


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a mere number
            await asyncio.sleep(0.001)


class Served:
    """A listener, and clients that connect without a turn of its loop."""

    def __init__(self) -> None:
        self.listener = Listener(
            Capacity(connections=8, strangers=4),
            stranger_seconds=STRANGER_SECONDS,
            handshake_seconds=HANDSHAKE_SECONDS,
        )
        self.port = 0
        self.asked: list[web.Request] = []
        self.clients = ExitStack()
        self._connected = select.poll()

    async def open(self) -> None:
        async def ok(request: web.Request) -> web.Response:
            self.asked.append(request)
            return web.Response(text="ok")

        async def first(request: web.Request) -> web.Response:
            return web.Response(body=await request.content.readany())

        app = web.Application(middlewares=[one_request])
        app.router.add_get("/", ok)
        app.router.add_post("/first", first)
        self.port = await self.listener.open(app, HERE)

    def connect(self, words: bytes = b"") -> socket.socket:
        client = self.clients.enter_context(socket.create_connection(("127.0.0.1", self.port), 10))
        if words:
            client.sendall(words)
        client.setblocking(False)
        self._connected.register(client, select.POLLIN)
        return client

    def cut(self) -> int:
        """How many clients have been cut off."""
        return len(self._connected.poll(0))


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    await served.open()
    with served.clients:
        yield served
    await served.listener.close()


async def ends(client: socket.socket) -> bytes:
    """All that it is still sent."""
    loop, told = asyncio.get_running_loop(), b""
    async with asyncio.timeout(10):
        try:
            while more := await loop.sock_recv(client, 4096):
                told += more
        except ConnectionResetError:
            pass
    return told


@contextmanager
def transports() -> Iterator[mock.Mock]:
    """Counts those that the loop makes."""
    loop: Any = asyncio.get_running_loop()
    made = loop._make_socket_transport
    with mock.patch.object(loop, "_make_socket_transport", wraps=made) as counted:
        yield counted


async def test_connection_that_says_nothing_costs_no_transport(served):
    with transports() as made:
        for _ in range(CROWD):
            served.connect()
        await until(lambda: served.cut() == CROWD - 2)
        assert len(served.listener.places) == 2
        assert made.call_count == 0


async def test_connection_gets_a_transport_when_it_speaks(served):
    with transports() as made:
        silent = served.connect()
        await until(lambda: len(served.listener.places) == 1)
        assert made.call_count == 0
        silent.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await ends(silent)).endswith(b"ok")
        assert made.call_count == 1
    await until(lambda: len(served.listener.places) == 0)


async def test_refused_connection_costs_few_calls(served):
    for _ in range(CROWD):
        served.connect()
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        await until(lambda: served.cut() == CROWD - 2)
    finally:
        sys.setprofile(before)
    assert calls / CROWD < MOST_CALLS


async def test_who_leaves_without_a_word_gives_its_place_back(served):
    for reset in (False, True):
        client = served.connect()
        await until(lambda: len(served.listener.places) == 1)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        await until(lambda: len(served.listener.places) == 0)


async def test_no_body_is_unpacked(served: Served) -> None:
    """A kilobyte could stand for a megabyte, and one that nobody reads would be unpacked, too."""
    body = gzip.compress(bytes(100_000))
    head = f"POST /first HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    client = served.connect(f"{head}Content-Encoding: gzip\r\n\r\n".encode() + body)
    answer = b""
    async with asyncio.timeout(20):
        while part := await asyncio.get_running_loop().sock_recv(client, 65536):
            answer += part
    assert answer.endswith(body)


@pytest.mark.parametrize("chunked", [False, True])
async def test_body_that_nobody_reads_is_parsed_no_further(
    served: Served, *, chunked: bool
) -> None:
    """A quarter of a megabyte in chunks of a byte takes 68 ms of the loop."""
    size = "Transfer-Encoding: chunked" if chunked else "Content-Length: 240000"
    body = b"1\r\na\r\n" * 40_000 if chunked else bytes(240_000)
    client = served.connect(f"GET / HTTP/1.1\r\nHost: x\r\n{size}\r\n\r\n".encode() + body)
    await until(lambda: bool(served.cut()))
    (asked,) = served.asked
    assert asked.content.total_bytes <= 32 * 1024 // (6 if chunked else 1)
    client.close()


async def test_connections_end_with_their_listener(served):
    silent, speaking = served.connect(), served.connect(b"GET / HTT")
    await until(lambda: len(served.listener.places) == 2)
    await served.listener.close()
    assert [await ends(silent), await ends(speaking)] == [b"", b""]
    with pytest.raises(ConnectionRefusedError):
        served.connect()


class Accepted:
    """An acceptor, and what it has accepted."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.sockets: list[socket.socket] = []
        self.acceptor = Acceptor(self._came)

    def _came(self, connection: socket.socket, host: str) -> None:
        self.hosts.append(host)
        self.sockets.append(connection)

    def close(self) -> None:
        self.acceptor.close()
        for connection in self.sockets:
            connection.close()


@pytest.fixture
async def accepted() -> AsyncIterator[Accepted]:
    accepted = Accepted()
    yield accepted
    accepted.close()


async def test_storm_gets_so_many_connections_of_each_turn(accepted):
    port = await accepted.acceptor.open(HERE)
    count, before, most = 3 * MOST_A_TURN, 0, 0
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        async with asyncio.timeout(20):
            while before < count:
                await asyncio.sleep(0)
                most = max(most, len(accepted.hosts) - before)
                before = len(accepted.hosts)
    assert most == MOST_A_TURN


async def test_requests_are_followed_by_rests(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers who come back at once, with or without a token, leave time to all else."""
    seconds = 0.02
    monkeypatch.setattr(acceptor, "REQUEST_REST_SECONDS", seconds)
    words = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    many, at_once = 40, 2
    began = asyncio.get_running_loop().time()

    async def ask_again_and_again() -> None:
        for _ in range(many // at_once):
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(words)
            assert (await reader.read()).endswith(b"ok")
            writer.close()

    async with asyncio.timeout(60):
        await asyncio.gather(*(ask_again_and_again() for _ in range(at_once)))
    assert len(served.asked) == many
    took = asyncio.get_running_loop().time() - began
    assert took >= (many - 2 * at_once) * seconds


@contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_nothing_is_tried_for_a_while_without_descriptors(accepted):
    errors: list[BaseException] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: errors.append(context["exception"]))
    port = await accepted.acceptor.open(HERE)
    with socket.create_connection(("127.0.0.1", port), 10):
        with no_descriptors():
            await until(lambda: bool(errors))
            for _ in range(100):
                await asyncio.sleep(0)
        assert [str(it) for it in errors] == ["[Errno 24] Too many open files"]
        assert not accepted.sockets
        await until(lambda: len(accepted.sockets) == 1)


async def test_all_addresses_of_a_host_are_listened_to(accepted):
    (port,) = free_ports(1)
    await accepted.acceptor.open(Address(host="", port=port))
    hosts = ["127.0.0.1"]
    with ExitStack() as stack:
        stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        if socket.has_dualstack_ipv6():
            stack.enter_context(socket.create_connection(("::1", port), 10))
            hosts.append("::1")
        await until(lambda: len(accepted.hosts) == len(hosts))
    assert sorted(accepted.hosts) == hosts


async def test_address_in_use_leaves_nothing_open(accepted):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            await accepted.acceptor.open(Address(host="127.0.0.1", port=port))
    await accepted.acceptor.open(Address(host="127.0.0.1", port=port))
