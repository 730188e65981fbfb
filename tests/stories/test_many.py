"""Story 7: hundreds of pods at once are all bound, and waiting costs Slurm next to nothing."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.support import pods
from tests.support.world import World

pytestmark = pytest.mark.timeout(300)

_MANY: Final = 500
# A cluster of a few nodes, where each placeholder is a process.
_FEW_NODES: Final = 100
_MANY_ON_FEW_NODES: Final = 60
_WINDOW_SECONDS: Final = 5.0
# One shared tick asks four times a second; the rest is looks that come seldom.
_REQUESTS_PER_SECOND: Final = 10.0


@pytest.mark.slow
async def test_hundreds_of_pods_are_bound_without_a_request_storm(world: World) -> None:
    count = _MANY if len(world.cluster.nodes) >= _FEW_NODES else _MANY_ON_FEW_NODES
    fewer = count // 5
    filler = await world.fill()
    await _create(world, range(fewer))
    few = await _waiting_costs(world, fewer)
    await _create(world, range(fewer, count))
    many = await _waiting_costs(world, count)
    assert many <= _REQUESTS_PER_SECOND, f"{many} requests/s while {count} pods wait"
    assert many <= few + 2.0, f"{few} requests/s for {fewer} pods, {many} for {count}"

    before = world.scheduler.metrics()["slurm_pod_scheduler_slurm_requests_total"]
    await world.end_native(filler)
    await world.until("all pods run", lambda: _all_run(world, count), seconds=180)
    spent = world.scheduler.metrics()["slurm_pod_scheduler_slurm_requests_total"] - before
    # One look at each job that has started, and the tick.
    assert spent <= 2 * count + 200, f"{spent} requests for {count} starts"

    placeholders = await world.one_placeholder_each()
    for pod in await world.kube.items("pods", namespace=world.namespace):
        job = placeholders[pod["metadata"]["uid"]]
        assert pods.node_of(pod) == job.nodes
        assert pods.annotation(pod, pods.JOB_ID) == str(job.job_id)


async def _create(world: World, indexes: range) -> None:
    places = asyncio.Semaphore(32)

    async def one(index: int) -> None:
        async with places:
            await world.create(f"many-{index}", cpus="1", memory="100Mi")

    async with asyncio.TaskGroup() as group:
        for index in indexes:
            group.create_task(one(index))


async def _waiting_costs(world: World, count: int) -> float:
    """Requests per second to slurmrestd, once all have their job."""
    await world.until(f"{count} pods wait", lambda: _all_have_jobs(world, count), seconds=120)
    metric = "slurm_pod_scheduler_slurm_requests_total"
    before = world.scheduler.metrics()[metric]
    await asyncio.sleep(_WINDOW_SECONDS)
    return (world.scheduler.metrics()[metric] - before) / _WINDOW_SECONDS


async def _all_have_jobs(world: World, count: int) -> bool:
    found = await world.kube.items("pods", namespace=world.namespace)
    return sum(pods.annotation(it, pods.JOB_ID) is not None for it in found) == count


async def _all_run(world: World, count: int) -> bool:
    found = await world.kube.items("pods", namespace=world.namespace)
    return sum(pods.phase(it) == "Running" for it in found) == count
