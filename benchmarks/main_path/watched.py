"""What a scheduler costs while nothing changes: requests, CPU and stalls over some seconds."""

from __future__ import annotations

import asyncio
import time

from benchmarks.main_path.counting import CountingRelay
from benchmarks.main_path.figures import Waiting
from benchmarks.main_path.observed import SLURM_REQUESTS, ObservedScheduler


async def watched(
    scheduler: ObservedScheduler, relay: CountingRelay, *, pods: int, seconds: float
) -> Waiting:
    """The cost of so many waiting pods. Raises SchedulerFailed."""
    before, wire, cpu = await scheduler.scrape(), relay.requests, scheduler.cpu_seconds()
    began = time.monotonic()
    await asyncio.sleep(seconds)
    used = scheduler.cpu_seconds() - cpu
    after, wire = await scheduler.scrape(), relay.requests - wire
    took = time.monotonic() - began
    return Waiting(
        pods=pods,
        seconds=took,
        requests_per_second=(after.total(SLURM_REQUESTS) - before.total(SLURM_REQUESTS)) / took,
        counted_on_the_wire=wire / took,
        cpu_share=used / seconds,
        stalls=after.stalls(since=before),
    )
