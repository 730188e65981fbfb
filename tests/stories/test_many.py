"""Story 7: hundreds of pods at once are all bound, and waiting pods cost Slurm few requests."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import pytest

from scheduler.slurm.pulse_pace import YOUNG_SECONDS
from tests.support import pods
from tests.support.world import World

# The sum of its waits and of those of its clean-up, each of which ends with what it waited for.
pytestmark = [pytest.mark.live_on("26.05"), pytest.mark.timeout(1200)]

_MANY: Final = 500
# A cluster with fewer nodes than this gets fewer pods: there each placeholder is a process.
_FEW_NODES: Final = 100
_MANY_ON_FEW_NODES: Final = 60
# Beside a whole live run, with a load of 46 on two cores, the binds took 200 s.
STARVED_SECONDS: Final = 480.0
_WINDOW_SECONDS: Final = 5.0
_REQUESTS: Final = "slurm_pod_scheduler_slurm_requests_total"
REQUESTS_PER_SECOND: Final = 8.0
# Requests per second: one shared pulse per --poll-interval, and reads of job records for reasons.
_RATES: Final = {"job_states": 4.0, "job": 4.0, "": REQUESTS_PER_SECOND}
# Requests that were not made for a while may be made at once.
_SAVED: Final = 16


@pytest.mark.slow
async def test_hundreds_of_pods_are_bound_without_a_request_storm(world: World) -> None:
    count = _MANY if len(world.cluster.nodes) >= _FEW_NODES else _MANY_ON_FEW_NODES
    filler = await world.fill()
    created = 0
    for until in (count // 5, count):
        await _create(world, range(created, until))
        created = until
        await waiting_costs_little(world, count=until)

    began, before = time.monotonic(), requests(world)
    await world.end_native(filler)
    await world.until("all pods run", lambda: so_many_run(world, count), seconds=STARVED_SECONDS)
    spent, seconds = requests(world) - before, time.monotonic() - began
    # One look at each job that has started, and the pulse.
    most = 2 * count + REQUESTS_PER_SECOND * seconds
    assert spent <= most, f"{spent} requests for {count} starts in {seconds} s"

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


async def waiting_costs_little(world: World, *, count: int) -> None:
    """Once all have a job, check that the request rates do not depend on the number of pods."""
    await world.until(f"{count} pods wait", lambda: _all_have_jobs(world, count), seconds=120)
    await asyncio.sleep(YOUNG_SECONDS)  # until then the pulse may come more often
    began, before = time.monotonic(), {it: requests(world, it) for it in _RATES}
    await asyncio.sleep(_WINDOW_SECONDS)
    spent = {it: requests(world, it) - before[it] for it in _RATES}
    seconds = time.monotonic() - began
    for operation, rate in _RATES.items():
        most = rate * seconds + _SAVED
        assert spent[operation] <= most, f"{spent} requests in {seconds} s while {count} pods wait"


def requests(world: World, operation: str = "") -> float:
    """How many requests of that operation slurmrestd answered, or how many it got in all."""
    if not operation:
        return world.scheduler.metrics()[_REQUESTS]
    return world.scheduler.metric(_REQUESTS, {"operation": operation, "outcome": "ok"})


async def _all_have_jobs(world: World, count: int) -> bool:
    found = await world.kube.items("pods", namespace=world.namespace)
    return sum(pods.annotation(it, pods.JOB_ID) is not None for it in found) == count


async def so_many_run(world: World, count: int) -> bool:
    found = await world.kube.items("pods", namespace=world.namespace)
    return sum(pods.phase(it) == "Running" for it in found) == count
