"""What a scheduler costs while nothing changes: requests, CPU and stalls over some seconds."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.main_path.counting import CountingRelay
from benchmarks.main_path.figures import Stalls, Waiting
from benchmarks.main_path.observed import ObservedScheduler, Scrape

REQUESTS: Final = "slurm_pod_scheduler_slurm_requests_total"
_STALLS: Final = "slurm_pod_scheduler_loop_stalls_total"


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
        requests_per_second=(after.total(REQUESTS) - before.total(REQUESTS)) / took,
        counted_on_the_wire=wire / took,
        cpu_share=used / seconds,
        stalls=stalls(before, after),
    )


def stalls(before: Scrape, after: Scrape) -> Stalls:
    """How often the event loop was late between two looks at /metrics."""
    busy, waiting = (
        int(after.total(_STALLS, cause=cause) - before.total(_STALLS, cause=cause))
        for cause in ("busy", "waiting")
    )
    return Stalls(busy, waiting)
