"""The transport takes the first response, never sends a change twice, and ends every wait."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from slurmapi import (
    Deadlines,
    HttpTransport,
    Request,
    Response,
    SlurmFenced,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmUnreachable,
)
from slurmapi.connection import IDLE_SECONDS
from tests.support.loop_time import pass_time
from tests.unit.slurmapi.server import (
    Peer,
    Reply,
    Server,
    cut,
    drip,
    fail,
    hang,
    message,
    other,
    raw,
)

Make = Callable[..., HttpTransport]
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


@pytest.fixture
async def transport_of() -> AsyncIterator[Make]:
    made: list[HttpTransport] = []

    def make(url: str, **more: Any) -> HttpTransport:
        settings: dict[str, Any] = {"deadlines": Deadlines(connect=20, silence=20, total=25)} | more
        made.append(HttpTransport(url, **settings))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


def get(path: str = "x", *, repeatable: bool = True) -> Request:
    return Request(method="GET", target=f"/slurm/v0.0.45/{path}", headers={}, repeatable=repeatable)


def post(path: str = "x") -> Request:
    return Request(method="POST", target=f"/slurm/v0.0.45/{path}", headers={}, body=b"{}")


def delete(path: str = "x") -> Request:
    return Request(
        method="DELETE", target=f"/slurm/v0.0.45/{path}", headers={}, body=b"{}", repeatable=True
    )


@pytest.mark.parametrize(
    ("answer", "connections"),
    [
        (message(200, b"{}"), 1),
        (message(200, b""), 1),
        (CHUNKED, 1),
        (CHUNKED.replace(b"chunked\r", b"chunked \r"), 1),
        (CHUNKED.replace(b"\r\n", b"\r\nConnection: Close\r\n", 1), 3),
        (b"HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 2\r\n\r\n{}", 3),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 3),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}", 1),
    ],
)
async def test_connection_is_used_again_unless_the_answer_forbids_it(
    server: Server, transport_of: Make, answer: bytes, connections: int
) -> None:
    server.on("GET x", raw(answer))
    transport = transport_of(server.url)
    for _ in range(3):
        assert (await transport.exchange(get())).status == 200
    assert server.connections == connections


async def test_first_of_two_responses_counts_and_its_connection_is_dropped(
    server: Server, transport_of: Make
) -> None:
    server.on("GET x", fail(422, {"errors": [1]}, twice=True), other({"fine": 1}))
    transport = transport_of(server.url)
    first = await transport.exchange(get())
    assert (first.status, first.body) == (422, b'{"errors": [1]}')
    second = await transport.exchange(get())
    assert (second.status, second.body) == (200, b'{"fine": 1}')
    assert server.connections == 2


async def test_error_answer_without_close_still_drops_its_connection(
    server: Server, transport_of: Make
) -> None:
    server.on("GET x", raw(message(500, b"no")), other({}))
    transport = transport_of(server.url)
    assert (await transport.exchange(get())).status == 500
    assert (await transport.exchange(get())).status == 200
    assert server.connections == 2


@pytest.mark.parametrize("surplus", [message(200, b"stale"), b"no response"])
@pytest.mark.parametrize("first", [message(200, b"{}"), CHUNKED], ids=["with length", "chunked"])
async def test_surplus_bytes_after_a_good_response_drop_the_connection(
    server: Server, transport_of: Make, first: bytes, surplus: bytes
) -> None:
    server.on("GET x", raw(first + surplus), other({"second": 2}))
    transport = transport_of(server.url)
    assert (await transport.exchange(get())).body == b"{}"
    assert (await transport.exchange(get())).body == b'{"second": 2}'
    assert server.connections == 2


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (replace(get(), headers={"X-SLURM-USER-TOKEN": "secret\r\nX: y"}), "X-SLURM-USER-TOKEN"),
        (replace(get(), headers={"X: y\r\nZ": "secret"}), "X: y"),
        (replace(get(), headers={"X": "secret\x7f"}), "X"),
        (replace(get(), target="/x y"), "/x y"),
        (replace(get(), target="/x\r\nX: y"), "/x"),
        (replace(get(), method="GET /x"), "GET /x"),
    ],
)
async def test_request_that_would_be_another_is_never_sent(
    server: Server, transport_of: Make, request_: Request, named: str
) -> None:
    server.on("GET x", other({}))
    transport = transport_of(server.url, connections=1)
    await transport.exchange(get())
    with pytest.raises(ValueError, match=r"HTTP|request") as caught:
        await transport.exchange(request_)
    assert named in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(server.seen) == 1
    assert (await transport.exchange(get())).status == 200


async def test_pool_is_bounded(server: Server, transport_of: Make) -> None:
    release = asyncio.Event()
    server.on("GET x", hang(release))
    transport = transport_of(server.url, connections=3)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(transport, get(repeatable=False))) for _ in range(9)]
        await server.until(lambda: len(server.seen) == 3)
        release.set()
    assert server.connections == 9
    assert {type(task.result()) for task in tasks} == {SlurmInterrupted}


async def test_waiters_are_served_first_come_first_served(
    server: Server, transport_of: Make
) -> None:
    server.on("GET a", other({}))
    transport = transport_of(server.url, connections=1)
    done: list[int] = []

    async def ask(number: int) -> None:
        await transport.exchange(get("a"))
        done.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(5):
            group.create_task(ask(number))
    assert done == [0, 1, 2, 3, 4]


async def test_last_used_connection_is_used_first(server: Server, transport_of: Make) -> None:
    release = asyncio.Event()

    async def when_released(peer: Peer) -> bool:
        await release.wait()
        peer.writer.write(message(200, b"{}"))
        return True

    server.on("GET slow", when_released)
    server.on("GET x", other({}))
    transport = transport_of(server.url)
    async with asyncio.TaskGroup() as group:
        group.create_task(transport.exchange(get("slow")))
        await server.until(lambda: len(server.seen) == 1)
        await transport.exchange(get())
        release.set()
    await transport.exchange(get())
    assert [seen.connection for seen in server.calls("GET x")] == [2, 1]


async def test_idle_connections_are_dropped_after_a_while(
    server: Server, transport_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET x", other({}))
    transport = transport_of(server.url)
    await transport.exchange(get())
    pass_time(monkeypatch, IDLE_SECONDS)
    await server.until(lambda: server.open_connections == 0)


@pytest.mark.parametrize("request_", [get(), post(), delete()], ids=["get", "post", "delete"])
async def test_connection_closed_while_idle_is_not_used(
    server: Server, transport_of: Make, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on(f"{request_.method} x", other({}))
    transport = transport_of(server.url)
    await transport.exchange(request_)
    await server.drop_idle()
    pass_time(monkeypatch, IDLE_SECONDS / 2)
    assert (await transport.exchange(request_)).status == 200
    assert len(server.seen) == 2


async def test_end_that_has_just_arrived_is_noticed_before_a_request_is_sent(
    server: Server, transport_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("POST x", other({}))
    transport = transport_of(server.url)
    await transport.exchange(post())
    pass_time(monkeypatch, IDLE_SECONDS / 2)
    server.shut_idle()  # and the loop does not turn in between
    assert (await transport.exchange(post())).status == 200
    assert [seen.connection for seen in server.seen] == [1, 2]


async def test_bytes_that_come_after_the_answer_drop_the_connection(transport_of: Make) -> None:
    served: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(message(200, b"{}"))
        await asked.wait()
        writer.write(message(200, b"stale"))
        await reader.read()
        writer.close()

    asked = asyncio.Event()
    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    transport = transport_of(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    assert (await transport.exchange(get())).body == b"{}"
    asked.set()
    for _ in range(10):  # the bytes arrive
        await asyncio.sleep(0)
    assert (await transport.exchange(get())).body == b"{}"
    assert len(served) == 2
    listener.close()


@pytest.mark.parametrize("expires", [False, True], ids=["closed", "expired"])
async def test_idle_connection_ends_without_a_reset(
    transport_of: Make, monkeypatch: pytest.MonkeyPatch, *, expires: bool
) -> None:
    ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"{}")
        writer.write(message(200, b"{}"))
        try:
            ended.set_result(await reader.read())
        except OSError as error:
            ended.set_exception(error)
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    transport = transport_of(f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    await transport.exchange(post())
    if expires:
        pass_time(monkeypatch, IDLE_SECONDS)
    else:
        transport.close()
    async with asyncio.timeout(45):
        assert await ended == b""
    listener.close()


@pytest.mark.parametrize("request_", [get(), delete()], ids=["get", "delete"])
async def test_repeatable_request_is_repeated_once_when_a_kept_connection_dies_under_it(
    server: Server, transport_of: Make, request_: Request
) -> None:
    server.on(f"{request_.method} x", other({}), cut(), other({"again": 1}))
    transport = transport_of(server.url)
    await transport.exchange(request_)
    assert (await transport.exchange(request_)).body == b'{"again": 1}'
    assert [seen.connection for seen in server.seen] == [1, 1, 2]


async def test_repeatable_request_is_not_repeated_on_a_fresh_connection(
    server: Server, transport_of: Make
) -> None:
    server.on("GET x", cut(), other({}))
    with pytest.raises(SlurmInterrupted):
        await transport_of(server.url).exchange(get())
    assert len(server.seen) == 1


async def test_repeatable_request_is_not_repeated_once_an_answer_has_begun(
    server: Server, transport_of: Make
) -> None:
    server.on("GET x", other({}), raw(b"HTTP/1.1 200 OK\r\nContent-Le", close=True), other({}))
    transport = transport_of(server.url)
    await transport.exchange(get())
    with pytest.raises(SlurmInterrupted):
        await transport.exchange(get())
    assert len(server.seen) == 2


@pytest.mark.parametrize("request_", [post(), delete()], ids=["post", "delete"])
async def test_write_without_a_permit_is_never_sent(
    server: Server, transport_of: Make, request_: Request
) -> None:
    server.on("GET x", other({}))
    transport = transport_of(server.url, permit=lambda: 0.0)
    with pytest.raises(SlurmFenced, match=f"{request_.method} .* may not be sent any more"):
        await transport.exchange(request_)
    assert (await transport.exchange(get())).status == 200, "reading is always allowed"
    assert [seen.method for seen in server.seen] == ["GET"]


async def test_write_that_waited_for_a_connection_asks_when_it_has_one(
    server: Server, transport_of: Make
) -> None:
    release, permits = asyncio.Event(), [5.0]

    async def when_released(peer: Peer) -> bool:
        await release.wait()
        peer.writer.write(message(200, b"{}"))
        return True

    server.on("GET slow", when_released)
    transport = transport_of(server.url, connections=1, permit=lambda: permits[-1])
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(transport.exchange(get("slow")))
        await server.until(lambda: len(server.seen) == 1)
        write = group.create_task(outcome(transport, post()))
        permits.append(-1.0)
        release.set()
    assert slow.result().status == 200
    assert isinstance(write.result(), SlurmFenced)
    assert not server.calls("POST x")


async def test_write_that_waited_too_long_for_a_connection_is_never_sent(
    server: Server, transport_of: Make
) -> None:
    release, loop = asyncio.Event(), asyncio.get_running_loop()

    async def when_released(peer: Peer) -> bool:
        await release.wait()
        peer.writer.write(message(200, b"{}"))
        return True

    server.on("GET slow", when_released)
    transport = transport_of(server.url, connections=1)
    async with asyncio.TaskGroup() as group:
        slow = group.create_task(transport.exchange(get("slow")))
        await server.until(lambda: len(server.seen) == 1)
        late = replace(post(), send_by=loop.time() + 0.05)
        write = group.create_task(outcome(transport, late))
        loop.call_at(loop.time() + 0.06, release.set)
    assert slow.result().status == 200
    assert isinstance(write.result(), SlurmUnreachable)
    assert not server.calls("POST x")


async def test_write_that_a_peer_does_not_take_ends_when_it_is_too_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        transport = HttpTransport(url, deadlines=Deadlines(connect=100, silence=100, total=100))
        large = Request(
            method="POST",
            target="/x",
            headers={},
            body=b"x" * 32_000_000,
            send_by=loop.time() + 40,
        )
        task = asyncio.ensure_future(transport.exchange(large))
        taken, _ = await loop.sock_accept(listening)
        with taken:
            assert await loop.sock_recv(taken, 1) == b"P", "it is being sent"
            pass_time(monkeypatch, 50)
            with pytest.raises(SlurmInterrupted):
                await task
        transport.close()


async def test_write_that_is_repeated_asks_again(server: Server, transport_of: Make) -> None:
    permits = iter((5.0, 5.0, 0.0))
    server.on("DELETE x", other({}), cut(), other({}))
    transport = transport_of(server.url, permit=lambda: next(permits))
    await transport.exchange(delete())
    with pytest.raises(SlurmFenced):
        await transport.exchange(delete())
    assert len(server.seen) == 2


async def test_write_that_a_peer_does_not_take_ends_with_its_permit() -> None:
    async with silent_listener() as url:
        deadlines = Deadlines(connect=100, silence=100, total=100)
        transport = HttpTransport(url, deadlines=deadlines, permit=lambda: 0.05)
        large = Request(method="POST", target="/x", headers={}, body=b"x" * 32_000_000)
        async with asyncio.timeout(45):
            with pytest.raises(SlurmInterrupted):
                await transport.exchange(large)
        transport.close()


async def test_connection_with_a_permit_is_kept_and_used_again(
    server: Server, transport_of: Make
) -> None:
    server.on("POST x", other({}))
    transport = transport_of(server.url, permit=lambda: 5.0)
    for _ in range(3):
        assert (await transport.exchange(post())).status == 200
    assert server.connections == 1


@contextlib.asynccontextmanager
async def silent_listener() -> AsyncIterator[str]:
    """Takes connections and never reads from them."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


async def test_post_is_never_repeated(server: Server, transport_of: Make) -> None:
    server.on("POST x", other({}), cut(), other({}))
    transport = transport_of(server.url)
    await transport.exchange(post())
    with pytest.raises(SlurmInterrupted):
        await transport.exchange(post())
    assert len(server.seen) == 2


async def test_cancelled_request_closes_its_connection(server: Server, transport_of: Make) -> None:
    server.on("GET x", hang(), other({}))
    transport = transport_of(server.url, connections=1)
    task = asyncio.ensure_future(transport.exchange(get()))
    await server.until(lambda: len(server.seen) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await transport.exchange(get())).status == 200
    assert [seen.connection for seen in server.seen] == [1, 2]


async def test_refused_connection_was_never_sent(transport_of: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(SlurmUnreachable, match="cannot connect"):
        await transport_of(f"http://127.0.0.1:{port}").exchange(post())


async def test_missing_unix_socket_was_never_sent(transport_of: Make, tmp_path: Path) -> None:
    with pytest.raises(SlurmUnreachable, match="none"):
        await transport_of(f"unix:{tmp_path}/none").exchange(post())


async def test_connect_deadline_covers_the_tls_handshake(transport_of: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        deadlines = Deadlines(connect=0.05, silence=2, total=4)
        transport = transport_of(f"https://127.0.0.1:{port}", deadlines=deadlines)
        with pytest.raises(SlurmUnreachable, match="timed out"):
            await transport.exchange(post())


async def test_silence_of_the_peer_ends_in_maybe_sent(server: Server, transport_of: Make) -> None:
    server.on("POST x", hang())
    transport = transport_of(server.url, deadlines=Deadlines(connect=30, silence=0.05, total=30))
    with pytest.raises(SlurmInterrupted, match="no answer"):
        await transport.exchange(post())
    await server.until(lambda: server.open_connections == 0)


async def test_dripping_peer_is_ended_by_the_total_deadline(
    server: Server, transport_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("GET x", drip(message(200, b"x" * 4000), gap=0.005))
    transport = transport_of(server.url, deadlines=Deadlines(connect=30, silence=100, total=30))
    task = asyncio.ensure_future(transport.exchange(get()))
    await server.until(lambda: len(server.seen) == 1)
    pass_time(monkeypatch, 40)
    with pytest.raises(SlurmInterrupted):
        await task


async def test_slow_but_complete_answer_is_taken(server: Server, transport_of: Make) -> None:
    server.on("GET x", drip(message(200, b"slow"), gap=0.0005))
    assert (await transport_of(server.url).exchange(get())).body == b"slow"


async def test_waiting_in_vain_for_a_free_connection_is_never_sent(
    server: Server, transport_of: Make
) -> None:
    server.on("POST x", hang())
    transport = transport_of(
        server.url, connections=1, deadlines=Deadlines(connect=1, silence=1, total=0.1)
    )
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(outcome(transport, post())) for _ in range(20)]
    unsent = [task for task in tasks if isinstance(task.result(), SlurmUnreachable)]
    assert unsent
    assert len(server.seen) <= len(tasks) - len(unsent)


async def outcome(transport: HttpTransport, request: Request) -> Response | Exception:
    try:
        return await transport.exchange(request)
    except (SlurmFenced, SlurmInterrupted, SlurmUnreachable) as error:
        return error


BODY = b'{"whole": "body"}'


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"
        + BODY[:5]
        + b"\r\nC;ext=1\r\n"
        + BODY[5:]
        + b"\r\n0\r\nTrailer: x\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" + message(200, BODY),
        b"HTTP/1.1 200\r\ncontent-LENGTH:17\r\n\r\n" + BODY,
        b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
    ],
    ids=["chunked", "interim", "terse", "until close"],
)
async def test_body_is_read_in_every_legal_framing(
    server: Server, transport_of: Make, data: bytes
) -> None:
    server.on("GET x", raw(data, close=b"HTTP/1.0" in data))
    assert (await transport_of(server.url).exchange(get())).body == BODY


@pytest.mark.parametrize("status", [204, 304])
async def test_status_without_body_is_complete_at_once(
    server: Server, transport_of: Make, status: int
) -> None:
    server.on("GET x", raw(f"HTTP/1.1 {status} X\r\n\r\n".encode()), other({}))
    transport = transport_of(server.url)
    response = await transport.exchange(get())
    assert (response.status, response.body) == (status, b"")
    assert (await transport.exchange(get())).status == 200
    assert server.connections == 1


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 999 ?\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"0" * 5000 + b"2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n"
        b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxyz",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n" + b"z" * 5000,
        b"HTTP/1.1 200 OK\r\nX: a\x00b\r\n\r\n",
        b"HTTP/1.1 200 OK\nContent-Length: 0\n\n\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10 + message(200, b"{}"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + (b"1;" + b"x" * 400 + b"\r\nz\r\n") * 100
        + b"0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: "
        + b"y" * 5000
        + b"\r\n\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"z" * 5000,
    ],
)
async def test_what_is_no_http_or_too_large_is_garbled(
    server: Server, transport_of: Make, data: bytes
) -> None:
    server.on("GET x", raw(data, close=True))
    with pytest.raises(SlurmGarbled):
        await transport_of(server.url).exchange(replace(get(), max_body=4096))
    await server.until(lambda: server.open_connections == 0)


@pytest.mark.parametrize(
    "reply",
    [
        cut(),
        raw(b"HTTP/1.1 20", close=True),
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", close=True),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", close=True),
        raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5", close=True),
    ],
    ids=["before", "in the head", "in the body", "in a chunk", "in a chunk size"],
)
async def test_connection_cut_after_sending_is_maybe_sent(
    server: Server, transport_of: Make, reply: Reply
) -> None:
    server.on("POST x", reply)
    with pytest.raises(SlurmInterrupted):
        await transport_of(server.url).exchange(post())
    assert len(server.seen) == 1


async def test_unix_socket_works(transport_of: Make, tmp_path: Path) -> None:
    peer = Server()
    await peer.start(unix=tmp_path / "slurmrestd.sock")
    peer.on("GET x", other({}))
    assert (await transport_of(peer.url).exchange(get())).status == 200
    await peer.stop()


@contextlib.asynccontextmanager
async def tls_server(authority: trustme.CA) -> AsyncIterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    peer = Server()
    await peer.start(tls=context)
    peer.on("GET x", other({}))
    try:
        yield peer
    finally:
        await peer.stop()


async def test_tls_server_of_a_trusted_authority_is_spoken_to(
    transport_of: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = trustme.CA()
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(trusted)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    async with tls_server(authority) as peer:
        transport = transport_of(peer.url)
        assert (await transport.exchange(get())).status == 200
        assert (await transport.exchange(get())).status == 200
        assert peer.connections == 1


async def test_tls_server_of_an_unknown_authority_is_never_sent_to(transport_of: Make) -> None:
    async with tls_server(trustme.CA()) as peer:
        with pytest.raises(SlurmUnreachable, match=r"(?i)certificate"):
            await transport_of(peer.url).exchange(get())
        assert peer.seen == []


async def test_path_prefix_of_the_url_is_kept(transport_of: Make) -> None:
    targets: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        targets.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(message(200, b"{}", close=True))
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    await transport_of(f"http://127.0.0.1:{port}/behind/proxy/").exchange(get("ping/"))
    listener.close()
    assert targets[0].startswith(b"GET /behind/proxy/slurm/v0.0.45/ping/ HTTP/1.1\r\n")
    assert f"Host: 127.0.0.1:{port}\r\n".encode() in targets[0]


async def test_closed_transport_sends_nothing(server: Server, transport_of: Make) -> None:
    server.on("GET x", other({}))
    transport = transport_of(server.url)
    await transport.exchange(get())
    transport.close()
    await server.until(lambda: server.open_connections == 0)
    with pytest.raises(SlurmUnreachable):
        await transport.exchange(get())


@pytest.mark.parametrize(
    "url",
    [
        *("", "slurm:6820", "ftp://h:1", "http://", "unix:relative", "http://u:p@h:1"),
        *("http://h?q=1", "http://h:u:p", "http://u:p@\u2100:1", "http://[u:p@h:1"),
    ],
)
def test_base_url_that_says_nothing_usable_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^expected http") as caught:
        HttpTransport(url)
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_there_is_no_deadline_without_end(seconds: float) -> None:
    with pytest.raises(ValueError, match="silence"):
        Deadlines(silence=seconds)


def test_request_shows_neither_headers_nor_body() -> None:
    shown = repr(Request(method="GET", target="/", headers={"T": "secret"}, body=b"secret"))
    assert "secret" not in shown


async def test_bulk_requests_leave_connections_to_others(
    server: Server, transport_of: Make
) -> None:
    server.on("POST x", hang())
    server.on("GET x", other({}))
    transport = transport_of(server.url, connections=4)
    bulk = Request(method="POST", target="/slurm/v0.0.45/x", headers={}, body=b"{}", bulk=True)
    tasks = [asyncio.ensure_future(transport.exchange(bulk)) for _ in range(50)]
    await server.until(lambda: server.open_connections == 3)
    async with asyncio.timeout(15):  # less than the bulk requests take
        assert (await transport.exchange(get())).ok
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
