"""Silent connections to the metrics and health ports delay no pod, and do not fill the log."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Final

import pytest

from scheduler.listen import descriptors
from tests.support.flood import Flood
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")

_SILENT: Final = 1100
_ADDRESSES: Final = 7
# The limit is large because the stories' schedulers log at level debug.
_LOG_BYTES: Final = 256 * 1024


async def test_flood_of_silent_connections_holds_up_no_pod(world: World) -> None:
    descriptors.raise_limit()
    before = world.scheduler.log.stat().st_size
    async with AsyncExitStack() as stack:
        for port in world.scheduler.face_ports:
            flood = Flood(port, addresses=_ADDRESSES)
            await flood.open(_SILENT)
            await stack.enter_async_context(flood)
        await world.create()
        await world.running()
        await world.until("both faces answer among them", lambda: _answers(world))
    assert world.scheduler.log.stat().st_size - before < _LOG_BYTES


async def _answers(world: World) -> bool:
    """Whether both ports answer. Each request has its own time limit, which a crowded machine may
    exceed.
    """
    role = await asyncio.to_thread(lambda: world.scheduler.role)
    shown = await asyncio.to_thread(world.scheduler.metrics_text)
    return role.startswith("ok") and "slurm_pod_scheduler_pods" in shown
