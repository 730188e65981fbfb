"""Lists and watches of objects that are as large as their authors could make them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pytest
from aiohttp import web

from scheduler.kube.pages import MOST_PAGE_BYTES
from scheduler.kube.reflector import TURN_BYTES, OnChange, Reflector, Resource
from scheduler.kube.session import KubeSession
from scheduler.kube.store import Store
from scheduler.kube.wire import PODS, Decode, Pod, WatchEvent
from tests.unit.kube.server import ApiStub, event, page, pieces, pod, status, watch

pytestmark = pytest.mark.looptime

PATH: Final = "/api/v1/pods"
MIB: Final = 1024 * 1024
LARGE: Final = 20
SMALL: Final = 600

Body = dict[str, Any]


def large(name: str, size: int) -> Body:
    return pod(name, metadata={"annotations": {"a": "x" * size}})


def _ignore(_old: Pod | None, _new: Pod | None) -> None:
    pass


@asynccontextmanager
async def running(
    session: KubeSession, decode: Decode[Pod], *, on_change: OnChange[Pod] = _ignore
) -> AsyncIterator[Reflector[Pod]]:
    reflector = Reflector(
        session,
        Resource(name="pods", path=PATH, decode=decode),
        store=Store[Pod](),
        on_change=on_change,
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        await asyncio.wait([task])


async def in_pages(request: web.Request) -> web.StreamResponse:
    """A list as the API server gives it: so many pods as are asked for, the large ones first."""
    begin = int(request.query.get("continue", "0"))
    end = begin + int(request.query["limit"])
    names = [f"p{number}" for number in range(LARGE + SMALL)]
    found = [large(name, MIB) for name in names[:LARGE]] + [pod(name) for name in names[LARGE:]]
    more = {"continue": str(end)} if end < len(found) else {}
    meta = {"resourceVersion": "10", **more}
    return web.json_response({"metadata": meta, "items": found[begin:end]})


async def test_page_that_is_too_large_is_asked_for_in_smaller_ones(
    stub: ApiStub, session: KubeSession
) -> None:
    stub.answer("GET", PATH, in_pages)
    stub.answer("WATCH", PATH, watch())
    async with running(session, PODS) as reflector:
        await stub.wait_for_requests(1, "WATCH")
        assert len(reflector.store) == LARGE + SMALL
    # Fewer while the pods are large, and then more again.
    limits = [int(it.query["limit"]) for it in stub.requests("GET")]
    assert limits == [500, 50, *[5] * 5, 50, 500, 500]


async def test_whole_list_that_is_too_large_is_made_in_pages_again(
    stub: ApiStub, session: KubeSession
) -> None:
    too_large = page(*(large(f"p{number}", MIB) for number in range(MOST_PAGE_BYTES // MIB)))
    expired = status(410, reason="Expired")
    stub.answer("GET", PATH, page(pod("a"), token="t"), expired, too_large, page(pod("a")))
    stub.answer("WATCH", PATH, watch())
    async with running(session, PODS) as reflector:
        await stub.wait_for_requests(1, "WATCH")
        assert len(reflector.store) == 1
    assert [it.query.get("limit") for it in stub.requests("GET")] == ["500", "500", None, "500"]


@dataclass
class Turns:
    """How many bytes were decoded in each turn of the loop."""

    number: int = 0
    read: Counter[int] = field(default_factory=Counter)

    @property
    def decode(self) -> Decode[Pod]:
        def item(data: bytes | msgspec.Raw) -> Pod:
            self.read[self.number] += memoryview(data).nbytes
            return PODS.item(data)

        def event(line: bytes) -> WatchEvent[Pod]:
            self.read[self.number] += len(line)
            return PODS.event(line)

        return Decode(item, event)


@pytest.mark.parametrize("by", ["list", "watch"])
async def test_large_pods_leave_turns_for_others(
    stub: ApiStub, session: KubeSession, by: str
) -> None:
    found = [large(f"p{number}", TURN_BYTES // 4) for number in range(20)]
    lines = [json.dumps(event("ADDED", it)).encode() + b"\n" for it in found]
    stub.answer("GET", PATH, page(*(found if by == "list" else ())))
    stub.answer("WATCH", PATH, watch() if by == "list" else pieces(b"".join(lines)))
    turns = Turns()
    async with running(session, turns.decode) as reflector:
        while len(reflector.store) < len(found):
            turns.number += 1
            await asyncio.sleep(0)
    assert sum(turns.read.values()) > 5 * TURN_BYTES
    assert max(turns.read.values()) < 2 * TURN_BYTES


async def test_long_list_is_stored_and_reported_an_object_at_a_time(
    stub: ApiStub, session: KubeSession
) -> None:
    """All are counted as kept meanwhile, so that many pods alone cause no collection of garbage."""
    stub.answer("GET", PATH, in_pages)
    stub.answer("WATCH", PATH, watch())
    seen = list[tuple[int, int]]()

    def note(_old: Pod | None, _new: Pod | None) -> None:
        seen.append((len(reflector.store), reflector.objects))

    async with running(session, PODS, on_change=note) as reflector:
        await reflector.synced.wait()
    assert [stored for stored, _ in seen] == list(range(1, LARGE + SMALL + 1))
    assert all(kept >= LARGE + SMALL for _, kept in seen)
