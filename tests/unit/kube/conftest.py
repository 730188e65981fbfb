"""A scripted API server, and a session with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from scheduler.kube.session import KubeSession
from tests.unit.kube.server import ApiStub, Failures, write_kubeconfig


@pytest.fixture(autouse=True)
def _no_outside_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def failures() -> Iterator[Failures]:
    """The outcomes of the lists and watches that have failed, as the log has them."""
    with capture_logs() as lines:
        yield lambda: [it["outcome"] for it in lines if "reflector" in it]


@pytest.fixture
async def stub() -> AsyncIterator[ApiStub]:
    stub = ApiStub()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", stub.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield stub
    await runner.cleanup()


@pytest.fixture
async def session(stub: ApiStub, tmp_path: Path) -> AsyncIterator[KubeSession]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", stub.url, {"token": "secret"})
    async with await KubeSession.open(kubeconfig, user_agent="test/1") as session:
        yield session
