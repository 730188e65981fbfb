"""The brake (I7): if Slurm would end many pods for lost nodes at once, each waits for a later look
at Slurm.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.audit.judge import Limits
from tests.stories.clusters import LIVE, told_on
from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

_MINIMUM: Final = 4
_PAUSE_SECONDS: Final = 10
_NAMES: Final = tuple(f"many-{number}" for number in range(8))
_HELD: Final = "slurm_pod_scheduler_brake_held_pods"
_READY: Final = "slurm_pod_scheduler_ready"

pytestmark = [
    pytest.mark.live_on("26.05"),
    pytest.mark.flags(f"--brake-minimum={_MINIMUM}", f"--brake-pause={_PAUSE_SECONDS}s"),
]


cluster = told_on("sandbox-26.05", *LIVE)


async def test_many_pods_of_a_lost_node_are_held_until_a_later_look(world: World) -> None:
    world.audit.limits = Limits(brake_minimum=_MINIMUM, brake_pause=_PAUSE_SECONDS - 1)
    node = world.cluster.nodes[0]
    found = await _running(world, node)
    await world.set_node(node, "DOWN")
    await world.until("the brake holds all", lambda: _shows(world, held=len(_NAMES), ready=False))
    world.unharmed(*found)
    event = await world.event("BrakeEngaged", name=_NAMES[0])
    assert event["type"] == "Warning"
    assert "lost its node" in event["message"]
    for name in _NAMES:
        await world.gone(name)
    await world.until("the brake holds none", lambda: _shows(world, held=0, ready=True))


async def _running(world: World, node: str) -> list[Object]:
    found = await world.small_ones(*_NAMES, slurm={"required-nodes": node})
    assert all(pods.annotation(pod, pods.JOB_ID) for pod in found)
    return found


async def _shows(world: World, *, held: int, ready: bool) -> bool:
    metrics = await asyncio.to_thread(world.scheduler.metrics)
    return {_HELD: held, _READY: ready}.items() <= metrics.items()
