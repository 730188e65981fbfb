"""Proves that nothing blocks the event loop: measures how late it is."""

from __future__ import annotations

import asyncio
from typing import Final

from scheduler.metrics import Metrics

_EVERY_SECONDS: Final = 0.02
STALL_SECONDS: Final = 0.05


async def watch_loop(metrics: Metrics) -> None:
    """For ever; end it by cancelling."""
    loop = asyncio.get_running_loop()
    worst = 0.0
    while True:
        due = loop.time() + _EVERY_SECONDS
        await asyncio.sleep(_EVERY_SECONDS)
        late = loop.time() - due
        if late > STALL_SECONDS:
            metrics.loop_stalls.inc()
        if late > worst:
            worst = late
            metrics.loop_lag.set(worst)
