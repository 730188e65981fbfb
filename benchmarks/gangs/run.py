"""One gang after the other: through the bare loop, and through the scheduler."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.gangs import bare
from benchmarks.gangs.figures import Course, Figures, Size
from benchmarks.main_path import observed
from benchmarks.main_path.hands import Hands, hands
from benchmarks.main_path.observed import BOUND, KUBE_REQUESTS, SLURM_REQUESTS, SUBMITTED
from benchmarks.main_path.phases import BareLoopFailed, settings_file
from benchmarks.main_path.servers import Servers
from tests.support.pods import node_of

_GANG: Final = "bench"
_STAGES: Final = "slurm_pod_scheduler_stage_seconds_sum"
_PATIENCE_SECONDS: Final = 300.0


class Run:
    """Gangs on `servers`; `say` is called with each step."""

    def __init__(
        self, servers: Servers, hand: Hands, *, folder: Path, say: Callable[[str], None]
    ) -> None:
        self._servers = servers
        self._hands = hand
        self._folder = folder
        self._say = say

    async def all(self, sizes: Sequence[int], *, rounds: int) -> Figures:
        """All rounds; raises SchedulerFailed, BareLoopFailed, ClearingFailed."""
        found = [Size(pods=pods, bare=[], scheduler=[]) for pods in sizes]
        for number in range(1, rounds + 1):
            for size in found:
                self._say(f"round {number} of {rounds}: {size.pods} pods, bare loop")
                size.bare.append(await self._bare(size.pods))
                self._say(f"round {number} of {rounds}: {size.pods} pods, scheduler")
                size.scheduler.append(await self._scheduler(size.pods))
        return Figures(servers=self._servers.name, nodes=self._servers.nodes, sizes=found)

    async def _bare(self, count: int) -> Course:
        async with self._bare_process() as process:
            assert process.stdin is not None
            assert process.stdout is not None
            if await process.stdout.readline() != bare.READY.encode():
                raise BareLoopFailed("the bare loop ended before it was ready")
            await self._create(count)
            pods = [it["metadata"] for it in await self._hands.pods()]
            brief = [{key: it[key] for key in ("name", "namespace", "uid")} for it in pods]
            printed, _ = await process.communicate(msgspec.json.encode(brief) + b"\n")
        if process.returncode:
            raise BareLoopFailed(f"the bare loop ended with status {process.returncode}")
        await self._all_bound(BareLoopFailed)
        await self._hands.clear(seconds=_PATIENCE_SECONDS)
        return msgspec.json.decode(printed, type=Course)

    @asynccontextmanager
    async def _bare_process(self) -> AsyncIterator[asyncio.subprocess.Process]:
        settings = settings_file(self._servers, self._folder, timeout_seconds=_PATIENCE_SECONDS)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.gangs.bare", str(settings)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(os.environ),
            # As the scheduler and the servers: Linux divides busy CPUs between sessions.
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _scheduler(self, count: int) -> Course:
        async with observed.running(self._servers, self._folder) as scheduler:
            await scheduler.until_ready()
            before = await scheduler.scrape()
            cpu, queued = scheduler.cpu_seconds(), scheduler.queued_seconds()
            created = await self._create(count)
            await scheduler.until_logged(BOUND, count, seconds=_PATIENCE_SECONDS)
            used = scheduler.cpu_seconds() - cpu, scheduler.queued_seconds() - queued
            after = await scheduler.scrape()
            await self._all_bound(scheduler.failed)
            submitted = scheduler.times(SUBMITTED, by="pod")
            bound = scheduler.times(BOUND, by="pod")
            if [*submitted] != [_GANG]:
                raise scheduler.failed(f"it has submitted jobs for {sorted(submitted)}")
            allocated = after.total(_STAGES, stage="allocated")  # the sum of one value
            course = Course(
                created_to_submitted=submitted[_GANG] - created,
                submitted_to_allocated=allocated,
                allocated_to_bound=max(bound.values()) - submitted[_GANG] - allocated,
                slurm_requests=after.total(SLURM_REQUESTS) - before.total(SLURM_REQUESTS),
                kube_requests=after.total(KUBE_REQUESTS) - before.total(KUBE_REQUESTS),
                cpu_seconds=used[0],
                queued_seconds=used[1],
                peak_rss_mib=scheduler.peak_rss_mib(),
                stalls=after.stalls(since=before),
            )
        await self._hands.clear(seconds=_PATIENCE_SECONDS)
        return course

    async def _create(self, count: int) -> float:
        """Create the pods of the gang; returns when the last one existed, in epoch seconds."""
        said = {"gang": _GANG, "gang-size": str(count)}
        await self._hands.create([f"{_GANG}-{rank}" for rank in range(count)], slurm=said)
        return time.time()

    async def _all_bound(self, failed: Callable[[str], Exception]) -> None:
        """Check with the API server that each pod has a Node of its own."""
        pods = await self._hands.pods()
        nodes = {node for pod in pods if (node := node_of(pod)) is not None}
        if len(nodes) != len(pods):
            raise failed(f"{len(pods)} pods are on {len(nodes)} Nodes")


async def run(
    servers: Servers,
    folder: Path,
    *,
    sizes: Sequence[int],
    rounds: int,
    say: Callable[[str], None],
) -> Figures:
    """A whole run on these servers; returns its figures."""
    async with hands(servers) as both:
        return await Run(servers, both, folder=folder, say=say).all(sizes, rounds=rounds)
