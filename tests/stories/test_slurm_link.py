"""A server that is not Slurm, or that refuses the token, does not count as Slurm. The scheduler is
not ready, says why and what helps, and sends requests at a bounded rate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.ports import free_ports
from tests.support.world import World

# A faulty scheduler of the past reported ready within this time.
_WATCHED_SECONDS: Final = 20.0
# A server without a known API version gets six requests, one for each version, in growing pauses.
_MOST_REQUESTS_PER_SECOND: Final = 4.0
_EXPIRED: Final = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjEsInN1biI6InJvb3QifQ.b2xkLXRva2Vu"


@asynccontextmanager
async def _started_with(world: World, *flags: str) -> AsyncIterator[None]:
    """Within the block the scheduler runs with these flags, and afterwards as before."""
    await asyncio.to_thread(world.scheduler.stop)
    world.scheduler.add_flags(*flags)
    world.scheduler.launch()
    try:
        yield
    finally:
        await asyncio.to_thread(world.scheduler.stop)
        world.scheduler.add_flags(
            f"--slurm-api-base={world.cluster.slurm_url}",
            f"--slurm-auth-token-file={world.cluster.slurm_token_file}",
        )
        await asyncio.to_thread(world.scheduler.start)


async def _says(world: World, *words: str) -> None:
    async def look() -> bool:
        role = await asyncio.to_thread(lambda: world.scheduler.role)
        return all(word in role for word in words)

    await world.until(f"/readyz says {words}", look)


async def _never_ready(world: World, cause: str) -> None:
    """Check for a while that the scheduler does not accept the server as Slurm."""
    began = time.monotonic()
    first = await asyncio.to_thread(world.scheduler.metrics)

    async def over() -> bool:
        role = await asyncio.to_thread(lambda: world.scheduler.role)
        assert not role.startswith("ok"), role
        return time.monotonic() - began >= _WATCHED_SECONDS

    await world.until("the time is over", over)
    shown = await asyncio.to_thread(world.scheduler.metrics)
    answered = "slurm_pod_scheduler_slurm_last_answer_timestamp_seconds"
    # Before the first answer, the metric is the start of the process, computed from two clocks.
    assert abs(shown[answered] - first[answered]) < 1.0
    requests = "slurm_pod_scheduler_slurm_requests_total"
    asked = shown.get(requests, 0.0) - first.get(requests, 0.0)
    assert asked / (time.monotonic() - began) <= _MOST_REQUESTS_PER_SECOND
    labels = {"server": "slurm", "cause": cause}
    assert world.scheduler.metric("slurm_pod_scheduler_trouble", labels) == 1


@pytest.mark.live_on("neither")
async def test_path_that_is_none_of_slurmrestd(world: World) -> None:
    """There are pods whose job ids are known only from annotations; their looks fail too."""
    pods = [f"train-{number}" for number in range(5)]
    for name in pods:
        await world.create(name, cpus="1", memory="100Mi")
    before = [await world.running(name) for name in pods]
    url = f"{world.cluster.slurm_url}/oops"
    async with _started_with(world, f"--slurm-api-base={url}"):
        await _says(world, f"what answers at {url} is not slurmrestd", "without '/oops'")
        await _never_ready(world, "no_slurmrestd")
    world.unharmed(*before)


@pytest.mark.live_on("neither")
async def test_token_that_has_expired(world: World, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(_EXPIRED, encoding="utf-8")
    async with _started_with(world, f"--slurm-auth-token-file={path}"):
        await _says(world, f"the token of file {path} expired at 1970-01-01 00:00:01 UTC")
        await _never_ready(world, "token_expired")


@pytest.mark.live_on("26.05")
async def test_nothing_listens_and_then_it_does(world: World) -> None:
    (port,) = free_ports(1)
    async with _started_with(world, f"--slurm-api-base=http://127.0.0.1:{port}"):
        await _says(world, f"nothing listens at http://127.0.0.1:{port}")
    await _says(world, "ok")


@pytest.mark.live_on("26.05")
async def test_outage_has_one_line_at_its_begin_and_one_at_its_end(world: World) -> None:
    began = "slurm does not answer"
    # On a crowded machine the log may have such lines from the start.
    before = len(_log(world))

    async def logged(event: str) -> bool:
        return f'"event": "{event}"' in _log(world)[before:]

    await world.cluster.stop("slurmrestd")
    try:
        await world.until("it is noticed", lambda: logged(began))
    finally:
        await world.cluster.start("slurmrestd")
    await world.until("its end is noticed", lambda: logged("slurm answers again"))
    log = _log(world)[before:]
    outage, _, _ = log.partition('"event": "slurm answers again"')
    assert outage.count(f'"event": "{began}"') == 1
    assert "nothing listens at" in outage


def _log(world: World) -> str:
    return world.scheduler.log.read_text(encoding="utf-8")
