"""A watcher that leaves before its answer has begun is no error of the server."""

from __future__ import annotations

import asyncio
import logging

import pytest

from scheduler.sandbox.kube import KubeModel, KubeServer

_WATCH = b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: sandbox\r\nAuthorization: Bearer t\r\n\r\n"


async def test_watcher_that_has_left_causes_no_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = KubeServer(KubeModel(), token="t")
    handled = asyncio.Event()
    answer = server._answer

    def leaving(call: object) -> object:
        assert server._server is not None
        for protocol in server._server.connections:
            assert protocol.transport is not None
            protocol.transport.close()
        handled.set()
        return answer(call)  # type: ignore[arg-type]

    monkeypatch.setattr(server, "_answer", leaving)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(_WATCH)
        async with asyncio.timeout(10):
            await handled.wait()
            assert await reader.read() == b""
        writer.close()
    finally:
        await server.stop(kill=True)
    assert [it for it in caplog.records if it.levelno >= logging.ERROR] == []
