"""The text of /metrics: who gets which, and what those cost who ask for it."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from aiohttp import hdrs, web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric

from scheduler.listen import sending
from scheduler.listen.sending import send
from scheduler.service.probes import metrics

CROWD = 100
Client = TestClient[web.Request, web.Application]


class Counted:
    """Counts how often all metrics are collected."""

    def __init__(self) -> None:
        self.times = 0

    def collect(self) -> Iterator[Metric]:
        self.times += 1
        yield GaugeMetricFamily("one", "a metric", value=1)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def client(registry: CollectorRegistry) -> AsyncIterator[Client]:
    async with TestClient(TestServer(metrics(registry)), auto_decompress=False) as client:
        yield client


async def _text(client: Client, **headers: str) -> tuple[str, bytes]:
    given = {"Accept-Encoding": "identity", **{k.replace("_", "-"): v for k, v in headers.items()}}
    async with client.get("/metrics", headers=given) as answer:
        assert answer.status == 200
        return answer.headers[hdrs.CONTENT_TYPE], await answer.read()


async def test_a_crowd_shares_a_few_texts(registry: CollectorRegistry, client: Client) -> None:
    counted = Counted()
    registry.register(counted)
    counted.times = 0
    texts = await asyncio.gather(*(_text(client) for _ in range(CROWD)))
    assert len({body for _, body in texts}) == 1
    assert counted.times < CROWD / 4


async def test_text_is_of_a_moment_after_the_question(
    registry: CollectorRegistry, client: Client
) -> None:
    seen = Counter("seen", "what was seen", registry=registry)
    for number in range(1, 5):
        seen.inc()
        _, body = await _text(client)
        assert f"seen_total {number}.0" in body.decode()


@pytest.mark.parametrize(
    ("accepted", "kind"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("text/plain", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text;version=0.0.1,text/plain", "text/plain; version=0.0.4"),
        ("application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1", "application/openmetrics"),
        ("application/openmetrics-text;version=nonsense", "text/plain; version=0.0.4"),
    ],
)
async def test_form_is_one_that_the_caller_reads(client: Client, accepted: str, kind: str) -> None:
    found, body = await _text(client, Accept=accepted)
    assert found.startswith(kind)
    assert body.endswith(b"# EOF\n") == ("openmetrics" in kind)


async def test_text_is_packed_for_those_who_accept_it(
    registry: CollectorRegistry, client: Client
) -> None:
    registry.register(Counted())
    _, body = await _text(client, Accept_Encoding="deflate, gzip")
    assert b"one 1.0" in gzip.decompress(body)


class Slow:
    """Serves a long answer to callers who read nothing of it."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.sent = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        # As small as the kernel makes it: what it takes is not kept in the process.
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        self.requests.append(request)
        response = await send(request, web.StreamResponse(), bytes(16 * 1024 * 1024))
        self.sent += 1
        return response


@pytest.fixture
async def slow() -> AsyncIterator[tuple[Slow, int]]:
    app, slow = web.Application(), Slow()
    app.router.add_get("/", slow.handle)
    async with TestServer(app) as server:
        assert server.port is not None
        yield slow, server.port


async def test_caller_who_reads_nothing_costs_little_and_not_for_long(
    slow: tuple[Slow, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, port = slow
    monkeypatch.setattr(sending, "SEND_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", port), 10) as caller:
        caller.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        most = 0
        async with asyncio.timeout(20):
            while not server.sent:
                await asyncio.sleep(0.01)
                for it in server.requests:
                    if it.transport is not None:
                        most = max(most, it.transport.get_write_buffer_size())
        async with asyncio.timeout(20):
            while any(it.transport is not None for it in server.requests):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    assert 0 < most <= 128 * 1024
