"""A caller of the hooks API who does not have its secret cannot disturb the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support.handover import (
    next_job_is_held,
)
from tests.support.hooks import hooks_on, secret_file
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")

_IDLE: Final = 400
_ASKING: Final = 8
_STRANGER: Final = (
    b"POST /v1/guard HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer stranger\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 16\r\n\r\njob=1&nodes=n[1]"
)
_HUGE: Final = (
    b"POST /v1/guard HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + b"x" * 65536
)


@pytest.fixture
def scheduler_flags(tmp_path: Path) -> tuple[str, ...]:
    """A hooks API."""
    return (f"--hooks-api-token-file={secret_file(tmp_path)}",)


async def test_flood_of_strangers_holds_up_no_pod_and_no_guard(world: World) -> None:
    port = int(world.scheduler.hooks_url.rpartition(":")[2])
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        async with _flooded(port) as refused:
            await next_job_is_held(world)
            await world.until("strangers were sent away", lambda: _sent_away(refused))


async def _sent_away(refused: list[bytes]) -> bool:
    return len(refused) > 100


@asynccontextmanager
async def _flooded(port: int) -> AsyncIterator[list[bytes]]:
    """Open hundreds of silent connections, and some that send requests as fast as they can."""
    refused: list[bytes] = []
    tasks = [asyncio.create_task(_silent(port)) for _ in range(_IDLE)]
    tasks += [asyncio.create_task(_asking(port, refused)) for _ in range(_ASKING)]
    try:
        yield refused
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _silent(port: int) -> None:
    while True:
        with suppress(OSError):
            async with _connection(port) as (reader, _):
                await reader.read()


async def _asking(port: int, refused: list[bytes]) -> None:
    while True:
        for sent in (_STRANGER, _HUGE):
            with suppress(OSError):
                async with _connection(port) as (reader, writer):
                    writer.write(sent)
                    if answer := await reader.read(12):
                        assert answer in (b"HTTP/1.1 401", b"HTTP/1.1 413"), answer
                        refused.append(answer)
        await asyncio.sleep(0.01)


@asynccontextmanager
async def _connection(
    port: int,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()
