"""The live stories that kill the scheduler at its writes leave out no kind of write that it has,
and a process dies when it is said to.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from typing import get_args

import pytest

from scheduler.config.settings import Settings
from tests.crash.operations import write_operations
from tests.faults.calls import CALLS, Server
from tests.faults.play import Play
from tests.faults.proxy import FaultProxy
from tests.faults.reaper import (
    BY_POLICY,
    Moment,
    Point,
    Reaper,
    kinds_of_election,
    kinds_of_work,
)

_READ = b"GET /slurm/v0.0.45/ping/ HTTP/1.1\r\n\r\n"
_WRITE = b"POST /slurm/v0.0.45/job/submit HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}"
_GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(("sleep", "60")) as process:
        yield process
        process.kill()


def test_each_kind_of_write_is_killed_at_with_one_policy_or_in_the_election() -> None:
    killed_at = [kinds_of_work(policy) for policy in BY_POLICY]
    assert kinds_of_election().union(*killed_at) == write_operations()
    assert BY_POLICY.keys() == set(get_args(Settings.model_fields["eviction_policy"].annotation))


def test_proxies_know_each_kind_of_write_by_its_name() -> None:
    assert {call.name for call in CALLS if call.writes} == write_operations()


@pytest.mark.parametrize(
    ("moment", "arrives", "answered"),
    [
        (Moment.BEFORE, False, False),
        (Moment.SENT, True, False),
        (Moment.DONE, True, False),
        (Moment.KNOWN, True, True),
    ],
)
async def test_process_dies_at_the_moment_and_but_once(
    victim: subprocess.Popen[bytes], moment: Moment, arrives: bool, answered: bool
) -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while raw := await reader.read(65536):
            asked.append(raw)
            writer.write(_GOOD)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    play, point = Play(), Point("submit", moment)
    reaper = Reaper(play, pid=lambda: victim.pid)
    reaper.due[point] = 2
    async with asyncio.timeout(10), FaultProxy(Server.SLURM, url, play=play) as proxy:
        assert await _told(proxy, _WRITE), "nobody is killed before it is armed"
        reaper.arm()
        assert await _told(proxy, _READ)
        assert reaper.missed([point]) == [str(point)]
        assert await _told(proxy, _WRITE) == answered
        assert await asyncio.to_thread(victim.wait, 10) == -signal.SIGKILL
        assert await _told(proxy, _WRITE), "nobody is killed twice"
    server.close()
    assert asked == [_WRITE, _READ, *([_WRITE] if arrives else []), _WRITE]
    assert (reaper.killed[point], reaper.missed([point])) == (1, [])
    assert not play.failures


async def _told(proxy: FaultProxy, request: bytes) -> bool:
    """Whether a client, by a connection of its own, gets the answer."""
    port = int(proxy.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.readexactly(len(_GOOD)) == _GOOD
    except (ConnectionResetError, asyncio.IncompleteReadError):
        return False
    finally:
        writer.transport.abort()
