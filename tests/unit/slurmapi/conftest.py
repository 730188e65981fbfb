"""A scripted slurmrestd and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from groundwork.retry import once
from slurmapi import Deadlines, JobSubmission, SlurmClient, StaticToken
from tests.unit.slurmapi.server import Server


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    peer = Server()
    await peer.start()
    yield peer
    await peer.stop()


@pytest.fixture
async def client_of() -> AsyncIterator[Callable[..., SlurmClient]]:
    """Makes clients with short deadlines that do not repeat anything unless told."""
    clients: list[SlurmClient] = []

    def make(server: Server, **more: Any) -> SlurmClient:
        settings: dict[str, Any] = {
            "token": StaticToken("secret-token"),
            "deadlines": Deadlines(connect=20, silence=20, total=25),
            "retry": once,
        } | more
        clients.append(SlurmClient(server.url, **settings))
        return clients[-1]

    async with AsyncExitStack() as stack:
        yield make
        for client in clients:
            await stack.enter_async_context(client)


@pytest.fixture
def client(server: Server, client_of: Callable[..., SlurmClient]) -> SlurmClient:
    return client_of(server)


@pytest.fixture
def placeholder() -> JobSubmission:
    return JobSubmission(
        name="default.web-0.01234567",
        external=True,
        admin_comment='{"v":1}',
        cpus=4,
        memory_mib=2048,
        gres="gres/gpu:2",
        partition="main",
    )
