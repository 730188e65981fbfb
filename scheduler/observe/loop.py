"""Measures whether something blocks the event loop: how late the loop is, why, and how many tasks
there are.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from scheduler.observe.metrics import Metrics

_EVERY_SECONDS: Final = 0.02
STALL_SECONDS: Final = 0.05


async def watch_loop(metrics: Metrics) -> None:
    """Measure for ever; cancel it to stop.

    A stall counts as "busy" if this thread used the CPU for more than 50 ms of it. Otherwise it
    counts as "waiting": for a CPU that the machine or a CPU limit did not give, or in a call that
    blocks.
    """
    loop = asyncio.get_running_loop()
    metrics.tasks.set_function(lambda: len(asyncio.all_tasks(loop)))
    worst = 0.0
    while True:
        due, computed = loop.time() + _EVERY_SECONDS, time.thread_time()
        await asyncio.sleep(_EVERY_SECONDS)
        late = loop.time() - due
        metrics.loop_lag.observe(late)
        if late > STALL_SECONDS:
            busy = time.thread_time() - computed > STALL_SECONDS
            metrics.loop_stalls.labels("busy" if busy else "waiting").inc()
        if late > worst:
            worst = late
            metrics.loop_lag_max.set(worst)
