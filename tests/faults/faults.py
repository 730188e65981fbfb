"""The table of faults: each is a function that lets one request go wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Final

from tests.faults.calls import Server
from tests.faults.exchange import Answer, Exchange
from tests.faults.messages import chunk, written
from tests.faults.play import Fault

_LATENCY_SECONDS: Final = 2.0
_JITTER_SECONDS: Final = 1.0
_REFUSED_SECONDS: Final = 3.0
_DRIP_SECONDS: Final = 0.05
_DRIP_PIECES: Final = 40
_NEIGHBOUR_SECONDS: Final = 1.0
_RETRY_AFTER: Final = 2
_GARBAGE: Final = bytes(range(256)) * 4
_PAGE: Final = b"<html><body>Please sign in to use this network.</body></html>"
_LISTS: Final = ("items", "jobs", "nodes", "partitions")


async def latency(it: Exchange) -> None:
    """Two seconds there, two seconds back."""
    await asyncio.sleep(_LATENCY_SECONDS)
    answer = await it.forward()
    await asyncio.sleep(_LATENCY_SECONDS)
    await it.relay(answer)


async def jitter(it: Exchange) -> None:
    """Up to a second each way."""
    await asyncio.sleep(random.uniform(0, _JITTER_SECONDS))
    answer = await it.forward()
    await asyncio.sleep(random.uniform(0, _JITTER_SECONDS))
    await it.relay(answer)


async def refused(it: Exchange) -> None:
    """All connections are cut, and new ones are refused for three seconds."""
    await it.proxy.refuse_for(_REFUSED_SECONDS)


async def reset_before(it: Exchange) -> None:
    """The request never arrives."""
    it.reset()


async def reset_after(it: Exchange) -> None:
    """The request is carried out, but its answer is lost."""
    await it.forward()
    it.reset()


async def silence_before(it: Exchange) -> None:
    """Half-open connection: the request never arrives, and no answer comes."""
    await it.hang()


async def silence_after(it: Exchange) -> None:
    """Half-open connection: the request is carried out, and no answer comes."""
    await it.forward()
    await it.hang()


async def slow_drip(it: Exchange) -> None:
    """The answer comes in forty pieces, twenty a second."""
    answer = await it.forward()
    if it.is_watch:
        await _relayed(it, answer, _dripped)
        return
    raw = answer.head.raw + b"".join([piece async for piece in answer.pieces()])
    async for piece in _dripped(_once(raw)):
        await it.send(piece)
    it.spent = True
    await it.close()


async def truncated(it: Exchange) -> None:
    """The answer ends in the middle of its body."""
    answer = await it.forward()
    await it.send(answer.head.raw)
    async with aclosing(answer.pieces()) as pieces:
        async for piece in pieces:
            await it.send(piece[: len(piece) // 2])
            break
    await it.close()


async def garbage(it: Exchange) -> None:
    """The answer is not HTTP."""
    await it.forward()
    await it.send(_GARBAGE)
    await it.close()


async def garbled_body(it: Exchange) -> None:
    """The answer has a valid head and a body that is not JSON."""
    await it.forward()
    await it.send(written(200, b'{"items": [{"meta'))
    await it.close()


async def wrong_type(it: Exchange) -> None:
    """The answer is an HTML page with status 200; the request never arrives."""
    await it.send(written(200, _PAGE, content_type="text/html"))


async def other_json(it: Exchange) -> None:
    """The answer is unrelated JSON with status 200; the request never arrives."""
    await it.send(written(200, b"{}"))


async def delivered_twice(it: Exchange) -> None:
    """The request is carried out twice; the client gets the second answer."""
    if not it.is_watch:
        await (await it.forward()).drained()
    await it.relay()


async def answered_twice(it: Exchange) -> None:
    """The answer comes twice on one connection, which is then closed."""
    answer = await it.forward()
    if it.is_watch:
        await it.relay(answer)
        return
    raw = answer.head.raw + b"".join([piece async for piece in answer.pieces()])
    await it.send(raw + raw)
    await it.close()


async def stale(it: Exchange) -> None:
    """The answer is an earlier list, with status 200."""
    await it.send(written(200, await _listed(it, await it.forward())))


async def empty(it: Exchange) -> None:
    """The list is empty, with status 200."""
    answer: dict[str, Any] = json.loads(await (await it.forward()).drained())
    for name in _LISTS:
        if name in answer:
            answer[name] = []
    await it.send(written(200, json.dumps(answer).encode()))


async def _listed(it: Exchange, answer: Answer) -> bytes:
    body = await answer.drained()
    return it.play.former(it) or body


async def ends_at_once(it: Exchange) -> None:
    """The watch is closed in order as soon as it has begun."""
    answer = await it.forward()
    await it.send(answer.head.raw + b"0\r\n\r\n")
    await it.close()


async def goes_silent(it: Exchange) -> None:
    """The watch begins, and then sends nothing."""
    answer = await it.forward()
    await it.send(answer.head.raw)
    await it.hang()


async def events_twice(it: Exchange) -> None:
    """The watch sends every event twice."""
    await _relayed(it, await it.forward(), _doubled)


async def events_out_of_order(it: Exchange) -> None:
    """The watch swaps events that follow each other."""
    await _relayed(it, await it.forward(), _swapped)


async def expired(it: Exchange) -> None:
    """The watch begins, and reports that its resourceVersion is too old."""
    event = json.dumps({"type": "ERROR", "object": _status(410, "Expired")}).encode()
    answer = await it.forward()
    await it.send(answer.head.raw + chunk(event + b"\n") + b"0\r\n\r\n")
    await it.close()


def status(code: int, *, retry_after: bool = False) -> Fault:
    """A refusal with that status and the server's usual body; the request never arrives."""

    async def refusal(it: Exchange) -> None:
        fields = (("Retry-After", str(_RETRY_AFTER)),) if retry_after else ()
        if it.server is Server.KUBE and code in _REASONS:
            body = json.dumps(_status(code, _REASONS.get(code, ""))).encode()
            await it.send(written(code, body, fields=fields))
            return
        if it.server is Server.KUBE:  # as from a gateway in front of it
            await it.send(written(code, _PAGE, content_type="text/html", fields=fields))
            return
        closing = (*fields, ("Connection", "Close"))
        first = written(code, _slurm_refusal(code), fields=closing)
        second = written(code, b"refused", content_type="text/plain", fields=closing)
        await it.send(first + second)
        await it.close()

    refusal.__name__ = f"{code}{' with Retry-After' if retry_after else ''}"
    return refusal


_REASONS: Final = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def _status(code: int, reason: str) -> dict[str, Any]:
    message = "a fault between you and the server"
    told = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**told, "message": message, "reason": reason, "code": code}


def _slurm_refusal(code: int) -> bytes:
    """The body of a refusal. For an expired token it also holds an empty list (measured)."""
    if code != 511:
        return b"a fault between you and the server"
    error = {"description": "refused", "error_number": 1007, "error": "Protocol error"}
    return json.dumps({"jobs": [], "nodes": [], "errors": [error], "warnings": []}).encode()


Stream = Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]


async def _relayed(it: Exchange, answer: Answer, through: Stream) -> None:
    await it.send(answer.head.raw)
    async for line in through(answer.lines()):
        await it.send(chunk(line))
    await it.send(b"0\r\n\r\n")


async def _doubled(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for line in lines:
        yield line
        yield line


async def _swapped(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Swap pairs of lines, if the second one arrives soon after the first."""
    waiting: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def read() -> None:
        async for line in lines:
            waiting.put_nowait(line)
        waiting.put_nowait(None)

    async with asyncio.TaskGroup() as group:
        reading = group.create_task(read(), name="lines")
        while (first := await waiting.get()) is not None:
            second = await _soon(waiting)
            if second is not None:
                yield second
            yield first
        await reading


async def _soon(waiting: asyncio.Queue[bytes | None]) -> bytes | None:
    try:
        async with asyncio.timeout(_NEIGHBOUR_SECONDS):
            found = await waiting.get()
    except TimeoutError:
        return None
    if found is None:
        waiting.put_nowait(None)
    return found


async def _dripped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        size = len(piece) // _DRIP_PIECES + 1
        for start in itertools.count(0, size):
            if start >= len(piece):
                break
            await asyncio.sleep(_DRIP_SECONDS)
            yield piece[start : start + size]


async def _once(raw: bytes) -> AsyncIterator[bytes]:
    yield raw
