"""The sandbox's API server, and the scripted one of the tests of `kube`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from scheduler.__main__ import main
from scheduler.observe import logs
from scheduler.sandbox.kube import KubeModel, KubeServer
from tests.unit.kube.conftest import _no_outside_settings, stub
from tests.unit.kube.server import write_kubeconfig

__all__ = ["_no_outside_settings", "stub"]

Call = Callable[..., Awaitable[tuple[int, str, str]]]
"""Carries a command line out; returns exit status, standard output and standard error."""


@pytest.fixture(autouse=True)
def _log_of_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command configures the log of its process. In the process of the tests it must not: later
    tests would write to the standard error of this one, which is closed by then.
    """
    monkeypatch.setattr(logs, "set_up", lambda _level, _form: None)


@pytest.fixture
async def server() -> AsyncIterator[KubeServer]:
    server = KubeServer(KubeModel(), token="secret", bookmark_seconds=0.2)
    await server.start()
    yield server
    await server.stop(kill=True)


@pytest.fixture
def kubeconfig(server: KubeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = write_kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "secret"})
    monkeypatch.setenv("KUBECONFIG", str(path))
    return path


@pytest.fixture
def command_line(capfd: pytest.CaptureFixture[str]) -> Call:
    """Carries out the command that the first word names."""

    async def call(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        status = await asyncio.to_thread(main, words)
        sys.stdout.flush()
        out, err = capfd.readouterr()
        return status, out, err

    return call
