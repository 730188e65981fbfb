"""What a peer can make the reader compute and keep is bounded, whatever it sends.

CPU time is compared with that of an ordinary answer in the same process, never with a clock.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Final

import pytest

from slurmapi import (
    HttpTransport,
    JobSubmission,
    Request,
    SlurmClient,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
)
from slurmapi.http1 import DEFAULT_MAX_BODY, MAX_HEAD_BYTES, CutShort, Exchange
from tests.unit.slurmapi.server import Peer, Reply, Server, message, raw

_MIB: Final = 1024 * 1024
_LINE: Final = b"HTTP/1.1 200 OK\r\n"
_CHUNKED: Final = _LINE + b"Transfer-Encoding: chunked\r\n\r\n"
_FIELD: Final = b"X-Header-%04d: some ordinary words, as proxies write them\r\n"
_ORDINARY: Final = (
    _LINE + b"".join(_FIELD % number for number in range(130)) + b"Content-Length: 0\r\n\r\n"
)
# A few milliseconds each: what is quadratic takes seconds for 64 KiB, and 150 ms for 8 KiB.
_MOST_TIMES: Final = 20


def request(*, max_body: int = DEFAULT_MAX_BODY) -> Request:
    return Request(method="GET", target="/", headers={}, max_body=max_body)


async def read(data: bytes, *, max_body: int = DEFAULT_MAX_BODY) -> float:
    """The CPU seconds that reading it takes."""
    stream = asyncio.StreamReader(limit=2**16)
    stream.feed_data(data)
    stream.feed_eof()
    began = time.thread_time()
    with suppress(SlurmError, CutShort):
        await Exchange(request(max_body=max_body), host="peer").read(stream)
    return time.thread_time() - began


async def cost(data: bytes) -> float:
    """The least of a few, since a busy machine makes any single one longer."""
    return min([await read(data) for _ in range(3)])


def hostile(size: int) -> dict[str, bytes]:
    blanks = b" " * size
    return {
        "blanks": b"X:" + blanks + b"\r\n",
        "blanks and a word": b"X:" + blanks + b"a\r\n",
        "blanks and what no field may hold": b"X:" + blanks + b"\x00\r\n",
        "tabs and a form feed": b"X:" + b"\t" * size + b"\x0c\r\n",
        "words and what no field may hold": b"X: " + b"a " * (size // 2) + b"\x00\r\n",
        "short fields": b"a:b\r\n" * (size // 5),
        "folded lines": b"X: a" + b"\r\n b" * (size // 4) + b"\r\n",
        "a long name": b"a" * size + b"\r\n",
        "commas": b"Connection: " + b"," * size + b"\r\n",
        "lengths": b"Content-Length: " + b"1," * (size // 2) + b"1\r\n",
    }


@pytest.mark.parametrize("size", [MAX_HEAD_BYTES - 100, 65_000])
@pytest.mark.parametrize("name", hostile(1))
async def test_hostile_head_costs_no_more_than_an_ordinary_one_times_a_few(
    name: str, size: int
) -> None:
    head = _LINE + hostile(size)[name] + b"\r\n"
    assert await cost(head) < _MOST_TIMES * await cost(_ORDINARY)


@pytest.mark.parametrize("name", hostile(1))
@pytest.mark.parametrize("size", [450, 1000, 65_000])
async def test_hostile_trailer_costs_no_more_than_an_ordinary_head_times_a_few(
    name: str, size: int
) -> None:
    trailer = _CHUNKED + b"0\r\n" + hostile(size)[name] + b"\r\n"
    assert await cost(trailer) < _MOST_TIMES * await cost(_ORDINARY)


async def test_ordinary_head_is_as_large_as_may_be() -> None:
    assert 0.9 * MAX_HEAD_BYTES < len(_ORDINARY) <= MAX_HEAD_BYTES
    stream = asyncio.StreamReader()
    stream.feed_data(_ORDINARY)
    response, _ = await Exchange(request(), host="peer").read(stream)
    assert len(response.headers) == 131


async def test_many_small_chunks_let_others_work_in_between() -> None:
    stream = asyncio.StreamReader(limit=2**16)
    stream.feed_data(_CHUNKED + b"1\r\na\r\n" * 10_000 + b"0\r\n\r\n")
    reading = asyncio.ensure_future(Exchange(request(), host="peer").read(stream))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert len((await reading)[0].body) == 10_000
    assert turns > 50, "each takes a fraction of a millisecond"


@pytest.mark.parametrize("data", [_ORDINARY, _CHUNKED + b"1\r\na\r\n0\r\n\r\n"])
async def test_nothing_of_an_exchange_waits_for_a_collection_of_garbage(data: bytes) -> None:
    await read(data)
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            await read(data)
        assert gc.collect() < 10
    finally:
        gc.enable()


# --- bodies ---------------------------------------------------------------------------------------


def endless(head: bytes, sent: list[int], *, chunked: bool = False) -> Reply:
    """A quarter of a gigabyte, as long as somebody takes it."""
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n" if chunked else b"x" * 65_536

    async def reply(peer: Peer) -> bool:
        peer.writer.write(head)
        with suppress(OSError):
            for _ in range(250 * 16):
                peer.writer.write(piece)
                await peer.writer.drain()
                sent.append(len(piece))
        return False

    return reply


@pytest.fixture
async def traced() -> AsyncIterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize(
    ("head", "chunked"),
    [
        (_LINE + b"Content-Length: 262144000\r\n\r\n", False),
        (_LINE + b"\r\n", False),
        (_CHUNKED, True),
    ],
    ids=["with its length", "until close", "chunked"],
)
async def test_endless_body_costs_its_limit_at_most(
    server: Server, head: bytes, chunked: bool
) -> None:
    sent: list[int] = []
    server.on("GET x", endless(head, sent, chunked=chunked))
    transport = HttpTransport(server.url)
    asked = Request(method="GET", target="/slurm/v0.0.45/x", headers={}, max_body=4 * _MIB)
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with pytest.raises(SlurmGarbled, match="the limit is 4194304"):
        await transport.exchange(asked)
    _, peak = tracemalloc.get_traced_memory()
    transport.close()
    assert peak - before < 4 * _MIB * 2.5
    # What the kernel holds comes on top.
    assert sum(sent) < 40 * _MIB


def padded(size: int) -> bytes:
    return message(200, b'{"errors": [], "jobs": [], "nodes": [], "pad": "' + b"x" * size + b'"}')


@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("GET ping/", _MIB),
        ("GET conf", _MIB),
        ("GET node/n1", _MIB),
        ("GET jobs/state/", 2 * _MIB),
        ("GET job/5", 8 * _MIB),
    ],
)
async def test_answer_may_be_as_long_as_such_answers_are(
    server: Server, client: SlurmClient, path: str, most: int
) -> None:
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "GET ping/": client.ping,
        "GET conf": client.config,
        "GET node/n1": lambda: client.node("n1"),
        "GET jobs/state/": lambda: client.job_states(range(1, 1001)),
        "GET job/5": lambda: client.job(5),
    }
    await client.negotiate()
    server.on(path, raw(padded(most - 1000)), raw(padded(most)))
    with suppress(SlurmGarbled):  # it lacks what was asked for
        await calls[path]()
    with pytest.raises(SlurmGarbled, match="the limit is"):
        await calls[path]()


async def test_long_answer_to_a_submit_leaves_its_outcome_open(
    server: Server, client: SlurmClient, placeholder: JobSubmission
) -> None:
    server.on("POST job/submit", raw(padded(_MIB)))
    with pytest.raises(SlurmInterrupted, match="the limit is"):
        await client.submit(placeholder)


async def test_list_of_many_nodes_is_taken(server: Server, client: SlurmClient) -> None:
    server.on("GET nodes/", raw(padded(40 * _MIB)))
    assert await client.nodes() == ()
