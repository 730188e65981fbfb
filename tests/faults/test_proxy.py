"""The proxy by itself: what passes through it unchanged, and what each fault makes of an answer."""

from __future__ import annotations

import asyncio
import gc
import json
import select
import socket
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trustme

from groundwork.retry import once
from scheduler.sandbox.cluster import Sandbox, SandboxShape
from scheduler.sandbox.slurm import mint_token
from slurmapi import SlurmClient, SlurmDenied, SlurmInterrupted, SlurmUnreachable, StaticToken
from slurmapi.transport import Deadlines
from tests.faults import faults
from tests.faults.calls import Server
from tests.faults.exchange import Exchange
from tests.faults.messages import chunk
from tests.faults.play import Moment, Play
from tests.faults.proxy import FaultProxy

POST = b"POST /slurm/v0.0.45/job/submit HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
PING = b"GET /slurm/v0.0.45/ping/ HTTP/1.1\r\n\r\n"
WATCH = b"GET /api/v1/pods?watch=true HTTP/1.1\r\n\r\n"
GOOD = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"job_id": 7}'
TWICE = (
    b"HTTP/1.1 500 NO\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}"
    b"HTTP/1.1 500 NO\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nno"
)
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LINES = [b'{"n": %d}\n' % number for number in range(4)]


class Upstream:
    """A server that says the same whatever it is asked, and keeps what it was."""

    def __init__(self) -> None:
        self.answer = GOOD
        self.asked: list[bytes] = []
        self.connections = 0
        self.left = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while raw := await reader.read(65536):
                self.asked.append(raw)
                writer.write(self.answer)
                if b"Close" in self.answer:
                    break
        finally:
            self.left.set()
            writer.close()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    found = Upstream()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield found
    server.close()


@pytest.fixture
def play() -> Play:
    return Play()


@pytest.fixture(params=[Server.SLURM])
async def proxy(
    request: pytest.FixtureRequest, upstream: Upstream, play: Play
) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(request.param, upstream.url, play=play) as found:
        yield found
    assert not play.failures


class Client:
    """One connection, of bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes) -> None:
        self.writer.write(request)
        await self.writer.drain()

    async def exactly(self, size: int) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        async with asyncio.timeout(10):
            return await self.reader.read()


@pytest.fixture
async def client(proxy: FaultProxy) -> AsyncIterator[Client]:
    port = int(proxy.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield Client(reader, writer)
    writer.transport.abort()


kube = pytest.mark.parametrize("proxy", [Server.KUBE], indirect=True)


async def test_requests_and_answers_pass_as_they_are(
    client: Client, upstream: Upstream, play: Play
) -> None:
    for _ in range(2):
        await client.ask(POST)
        assert await client.exactly(len(GOOD)) == GOOD
    assert upstream.asked == [POST, POST]
    assert upstream.connections == 1
    assert [(it.name, it.write) for it in play.journal] == [("submit", 1), ("submit", 2)]


async def test_both_answers_to_a_failed_request_pass(client: Client, upstream: Upstream) -> None:
    upstream.answer = TWICE
    await client.ask(POST)
    assert await client.rest() == TWICE


@kube
async def test_a_watch_passes_as_it_comes(client: Client, upstream: Upstream) -> None:
    upstream.answer = STREAM + chunk(LINES[0])
    await client.ask(WATCH)
    assert await client.exactly(len(upstream.answer)) == upstream.answer


@kube
async def test_a_watcher_that_leaves_is_not_kept(client: Client, upstream: Upstream) -> None:
    upstream.answer = STREAM
    await client.ask(WATCH)
    await client.exactly(len(STREAM))
    client.writer.close()
    async with asyncio.timeout(10):
        await upstream.left.wait()


async def test_requests_that_the_table_lacks_are_kept_as_strangers(
    client: Client, play: Play
) -> None:
    await client.ask(b"GET /slurm/v0.0.45/diag/ HTTP/1.1\r\n\r\n")
    await client.exactly(len(GOOD))
    assert play.strangers == ["GET /slurm/v0.0.45/diag/"]


async def test_hooks_come_before_the_server_acts_before_and_after_the_answer(
    client: Client, upstream: Upstream, play: Play
) -> None:
    seen: list[tuple[Moment, int | None, int]] = []

    async def hook(moment: Moment, exchange: Exchange) -> None:
        seen.append((moment, exchange.write, len(upstream.asked)))

    play.hooks.append(hook)
    for request in (PING, POST, POST):
        await client.ask(request)
        await client.exactly(len(GOOD))
    await client.ask(PING)
    await client.exactly(len(GOOD))
    assert seen[:9] == [
        (Moment.ARRIVED, None, 0),
        (Moment.ACTED, None, 1),
        (Moment.ANSWERED, None, 1),
        (Moment.ARRIVED, 1, 1),
        (Moment.ACTED, 1, 2),
        (Moment.ANSWERED, 1, 2),
        (Moment.ARRIVED, 2, 2),
        (Moment.ACTED, 2, 3),
        (Moment.ANSWERED, 2, 3),
    ]


async def test_a_rule_takes_the_nth_of_its_kind_and_as_many_as_it_says(
    client: Client, play: Play
) -> None:
    rule = play.add(faults.status(503), call="submit", nth=2, times=1)
    for request, expected in ((PING, b"200"), (POST, b"200"), (PING, b"200"), (POST, b"503")):
        await client.ask(request)
        assert expected in await client.reader.readline()
        await client.exactly(len(GOOD.partition(b"\n")[2])) if expected == b"200" else None
    assert rule.played == 1


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [(faults.reset_before, False), (faults.reset_after, True)],
)
async def test_a_reset_is_a_reset(
    client: Client, upstream: Upstream, play: Play, fault: Any, arrives: bool
) -> None:
    play.add(fault)
    await client.ask(POST)
    with pytest.raises(ConnectionResetError):
        await client.rest()
    assert bool(upstream.asked) == arrives


@pytest.mark.parametrize(
    ("fault", "arrives"),
    [(faults.silence_before, False), (faults.silence_after, True)],
)
async def test_silence_lasts_until_the_client_leaves(
    client: Client, upstream: Upstream, play: Play, fault: Any, arrives: bool
) -> None:
    play.add(fault)
    await client.ask(POST)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await client.reader.read(1)
    async with asyncio.timeout(10):
        while arrives and not upstream.asked:  # noqa: ASYNC110 - a mere list
            await asyncio.sleep(0.01)
    assert bool(upstream.asked) == arrives


async def test_refusal_is_of_connections_and_passes(
    client: Client, proxy: FaultProxy, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "_REFUSED_SECONDS", 1.0)
    play.add(faults.refused)
    port = int(proxy.url.rpartition(":")[2])
    await client.ask(PING)
    with pytest.raises(ConnectionResetError):
        await client.rest()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(10):
        while not await _accepts(port):  # noqa: ASYNC110 - the proxy tells nobody
            await asyncio.sleep(0.02)


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.transport.abort()
    return True


async def test_a_truncated_answer_promises_more_than_it_holds(client: Client, play: Play) -> None:
    play.add(faults.truncated)
    await client.ask(POST)
    assert await client.rest() == GOOD[:-7]


async def test_a_request_delivered_twice_is_answered_once(
    client: Client, upstream: Upstream, play: Play
) -> None:
    play.add(faults.delivered_twice)
    await client.ask(POST)
    assert await client.exactly(len(GOOD)) == GOOD
    await client.ask(PING)
    assert await client.exactly(len(GOOD)) == GOOD
    assert upstream.asked == [POST, POST, PING]


async def test_an_answer_may_come_twice(client: Client, upstream: Upstream, play: Play) -> None:
    play.add(faults.answered_twice)
    await client.ask(POST)
    assert await client.rest() == GOOD + GOOD
    assert upstream.asked == [POST]


async def test_lists_are_emptied_or_those_of_before(
    client: Client, upstream: Upstream, play: Play
) -> None:
    question = b"GET /slurm/v0.0.45/jobs/state/?job_id=%d HTTP/1.1\r\n\r\n"

    def listed(*jobs: int) -> bytes:
        body = json.dumps({"jobs": jobs}).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    for number, fault in ((1, None), (2, None), (3, faults.stale), (4, faults.empty)):
        upstream.answer = listed(number)
        if fault is not None:
            play.add(fault)
        await client.ask(question % number)
        head = await client.reader.readuntil(b"\r\n\r\n")
        answer = json.loads(await client.exactly(int(head.split(b"Length: ")[1].split(b"\r")[0])))
        assert answer["jobs"] == {1: [1], 2: [2], 3: [1], 4: []}[number]


@kube
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (faults.events_twice, [LINES[number // 2] for number in range(8)]),
        (faults.events_out_of_order, [LINES[1], LINES[0], LINES[3], LINES[2]]),
        (faults.slow_drip, LINES),
    ],
)
async def test_events_of_a_watch_come_otherwise(
    client: Client, upstream: Upstream, play: Play, fault: Any, told: list[bytes]
) -> None:
    upstream.answer = STREAM + b"".join(map(chunk, LINES)) + b"0\r\n\r\n"
    play.add(fault)
    await client.ask(WATCH)
    assert await client.exactly(len(STREAM)) == STREAM
    lines = b""
    while (size := int(await client.reader.readline(), 16)) > 0:
        lines += (await client.exactly(size + 2))[:-2]
    assert lines == b"".join(told)


@kube
async def test_an_api_server_refuses_in_its_own_words(client: Client, play: Play) -> None:
    play.add(faults.status(429, retry_after=True))
    await client.ask(WATCH)
    head = await client.reader.readuntil(b"\r\n\r\n")
    assert b" 429 " in head
    assert b"Retry-After: 2" in head
    answer = json.loads(await client.exactly(int(head.split(b"Length: ")[1].split(b"\r")[0])))
    assert (answer["kind"], answer["reason"]) == ("Status", "TooManyRequests")


@pytest.fixture
async def slurm(play: Play) -> AsyncIterator[SlurmClient]:
    """The client in front of the model, through the proxy."""
    async with AsyncExitStack() as stack:
        sandbox = await stack.enter_async_context(Sandbox(SandboxShape(nodes=1)))
        url = f"unix:{sandbox.slurm_socket}"
        proxy = await stack.enter_async_context(FaultProxy(Server.SLURM, url, play=play))
        client = SlurmClient(
            proxy.url,
            token=StaticToken(mint_token(sandbox.slurm.key, "root", 60)),
            deadlines=Deadlines(silence=2),
            retry=once,
        )
        yield await stack.enter_async_context(client)
    assert not play.failures
    assert not play.strangers


async def test_the_client_sees_what_the_server_says(slurm: SlurmClient) -> None:
    assert (await slurm.ping()).responding
    assert [node.name for node in await slurm.nodes()] == ["node-00"]
    assert not await slurm.cancel([4711])


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (faults.reset_before, SlurmInterrupted),
        (faults.silence_after, SlurmInterrupted),
        (faults.truncated, SlurmInterrupted),
        (faults.status(511), SlurmDenied),
    ],
)
async def test_the_client_tells_what_a_fault_was(
    slurm: SlurmClient, play: Play, fault: Any, error: type[Exception]
) -> None:
    await slurm.negotiate()
    play.add(fault, call="nodes", times=None)
    with pytest.raises(error):
        await slurm.nodes()
    play.heal()
    assert await slurm.nodes()


async def test_the_client_knows_that_nothing_was_sent(slurm: SlurmClient, play: Play) -> None:
    await slurm.negotiate()
    play.add(faults.refused, call="nodes")
    with pytest.raises(SlurmUnreachable):
        await slurm.nodes()


def test_client_that_never_answers_a_goodbye_leaves_no_open_transport() -> None:
    authority = trustme.CA()
    server, trust = (
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(),
    )
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(trust)
    silent: list[ssl.SSLSocket] = []

    def ask(port: int) -> None:
        raw = socket.create_connection(("127.0.0.1", port), timeout=10)
        silent.append(trust.wrap_socket(raw, server_hostname="127.0.0.1"))
        silent[0].sendall(POST)
        left = len(CLOSING)
        while left:
            left -= len(silent[0].recv(left))
        # The goodbye is there, and stays unread.
        assert select.select(silent, [], [], 10)[0]

    async def talk() -> None:
        upstream = Upstream()
        upstream.answer = CLOSING
        listener = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with FaultProxy(Server.KUBE, url, play=Play(), certificate=server) as proxy:
            await asyncio.to_thread(ask, int(proxy.url.rpartition(":")[2]))
        listener.close()

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(talk())
        gc.collect()
    for client in silent:
        client.close()
    assert not [it.message for it in found]


@pytest.mark.parametrize("turns", range(6))
def test_refusal_leaves_no_connection_open_that_has_just_been_accepted(turns: int) -> None:
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)

    async def talk() -> None:
        url = "http://127.0.0.1:1"
        async with FaultProxy(Server.KUBE, url, play=Play(), certificate=server) as proxy:
            port = int(proxy.url.rpartition(":")[2])
            clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
            for _ in range(turns):
                await asyncio.sleep(0)
            await proxy.refuse()
            gc.collect()
        for client in clients:
            client.close()

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        asyncio.run(talk())
        gc.collect()
    assert not [it.message for it in found]
