"""Gangs in number and size: 500 gangs of two at once, and one gang of 200. Each has one job, and
Slurm gets no more requests for a gang than for a single pod.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import pytest

from tests.stories.clusters import told_on
from tests.stories.test_many import (
    REQUESTS_PER_SECOND,
    STARVED_SECONDS,
    requests,
    so_many_run,
    waiting_costs_little,
)
from tests.support import pods
from tests.support.world import World

_GANGS: Final = 500
_PAIR: Final = 2
_LARGE: Final = 200
_KUBE_REQUESTS: Final = "slurm_pod_scheduler_kube_requests_total"
# A job's record names its nodes, and a bind needs a look that is at most two seconds old. Only on a
# starved machine does a gang come to its bind later than that, and is looked at again.
_LOOKS: Final = 2
pytestmark = [
    pytest.mark.flags("--gangs=annotations", "--gang-linger=0s"),
    # The sum of its waits and of those of its clean-up, each of which ends with what it waited for.
    pytest.mark.timeout(1200),
]

cluster = told_on("sandbox-26.05")


@pytest.mark.slow
async def test_hundreds_of_gangs_are_bound_with_one_job_each_and_few_requests(
    world: World,
) -> None:
    filler = await world.fill()
    gangs = {f"pair{number}": _PAIR for number in range(_GANGS)}
    await _create(world, gangs)
    await waiting_costs_little(world, count=_GANGS * _PAIR)
    assert requests(world, "submit") == _GANGS, "a submit for each gang"

    began, before = time.monotonic(), requests(world)
    await world.end_native(filler)
    await _run_all(world, _GANGS * _PAIR)
    spent, seconds = requests(world) - before, time.monotonic() - began
    most = _LOOKS * _GANGS + REQUESTS_PER_SECOND * seconds
    assert spent <= most, f"{spent} requests for {_GANGS} starts in {seconds} s"
    await _one_job_each(world, gangs)


@pytest.mark.flags("--condition-interval=60")
async def test_gang_of_two_hundred_is_bound_with_few_requests(world: World) -> None:
    gangs = {"large": _LARGE}
    began, before = time.monotonic(), requests(world)
    await _create(world, gangs)
    await _run_all(world, _LARGE)
    spent, seconds = requests(world) - before, time.monotonic() - began
    assert requests(world, "submit") == 1
    # The binds of so many pods may take longer than the two seconds for which a look counts.
    most = 1 + _LOOKS + REQUESTS_PER_SECOND * seconds
    assert spent <= most, f"{spent} requests for a gang of {_LARGE} in {seconds} s"
    assert _kube_requests(world, "bind") == _LARGE
    # If the pods come slowly, each is told that others are missing, then its job, then why that
    # waits, and from then on what is new once in 60 s.
    told = _kube_requests(world, "patch_pod_status")
    assert told <= (3 + seconds / 60) * _LARGE, f"{told} writes on {_LARGE} pods in {seconds} s"
    await _one_job_each(world, gangs)


async def _create(world: World, gangs: dict[str, int]) -> None:
    """Create the pods of all gangs, the pods of one gang after those of another."""
    places = asyncio.Semaphore(32)

    async def one(gang: str, rank: int) -> None:
        said = {"gang": gang, "gang-size": str(gangs[gang])}
        async with places:
            await world.create(f"{gang}-{rank}", slurm=said, cpus="1", memory="100Mi", grace=1)

    async with asyncio.TaskGroup() as group:
        for gang, size in gangs.items():
            for rank in range(size):
                group.create_task(one(gang, rank))


async def _run_all(world: World, count: int) -> None:
    what = f"{count} pods run"
    await world.until(what, lambda: so_many_run(world, count), seconds=STARVED_SECONDS)


async def _one_job_each(world: World, gangs: dict[str, int]) -> None:
    """Each gang has one job, which has a node for each of its pods."""
    of_gang: dict[str, set[str]] = {gang: set() for gang in gangs}
    nodes: dict[str, set[str | None]] = {gang: set() for gang in gangs}
    for pod in await world.kube.items("pods", namespace=world.namespace):
        gang = pod["metadata"]["name"].partition("-")[0]
        of_gang[gang].add(str(pods.annotation(pod, pods.JOB_ID)))
        nodes[gang].add(pods.node_of(pod))
    assert {gang: len(found) for gang, found in nodes.items()} == gangs
    live = {str(it.job_id): it for it in await world.slurm.live_placeholders(world.namespace)}
    named = [job for jobs in of_gang.values() for job in jobs]
    assert sorted(named) == sorted(live), "each gang has one job, and there is no other"
    for gang, jobs in of_gang.items():
        assert len(live[jobs.pop()].tag["uids"]) == gangs[gang]


def _kube_requests(world: World, operation: str) -> float:
    return world.scheduler.metric(_KUBE_REQUESTS, {"operation": operation, "outcome": "ok"})
