"""Two gangs that do not fit together: one runs whole, and the other waits whole. A scheduler of
single pods would give each of them a part of the nodes, and both would wait for ever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import pytest

from tests.stories.clusters import LIVE, told_on
from tests.support import pods
from tests.support.history import Seen
from tests.support.world import World

_NODES: Final = 10
_SIZE: Final = 6
# A round on real servers takes some seconds of Slurm's own.
_ROUNDS: Final = {"sandbox": 50, "live": 5}
# The sum of its waits and of those of its clean-up, each of which ends with what it waited for.
pytestmark = [pytest.mark.live_on("26.05", models="both"), pytest.mark.timeout(1200)]

cluster = told_on("sandbox-26.05", "sandbox-24.11-wide", *LIVE)


@pytest.mark.slow
@pytest.mark.flags("--gangs=annotations", "--gang-linger=0s")
async def test_one_of_two_gangs_runs_whole_and_the_other_waits_whole_until_it_has_gone(
    world: World,
) -> None:
    if spare := len(world.cluster.nodes) - _NODES:
        await world.fill(but=_NODES)
    assert spare >= 0, f"{world.cluster.name} has too few nodes"
    order = random.Random(6)  # a fixed one: a failure can be repeated
    for number in range(_ROUNDS[world.cluster.name.partition("-")[0]]):
        await _round(world, (f"a{number}", f"b{number}"), order)


async def _round(world: World, gangs: tuple[str, str], order: random.Random) -> None:
    names = [name for gang in gangs for name in _members(gang)]
    order.shuffle(names)
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(_create(world, name))
    winner = await world.until("one of the gangs runs", lambda: _one_runs(world, gangs))
    loser = gangs[1 - gangs.index(winner)]
    await world.until(f"gang {loser} has a job, too", lambda: _both_have_jobs(world))
    await _delete(world, winner)
    await world.until(f"gang {loser} runs", lambda: _runs(world, loser))
    await _delete(world, loser)
    await world.until("the round's pods are gone", lambda: _gone(world, names))
    _check(world, winner, loser)


def _members(gang: str) -> list[str]:
    return [f"{gang}-{rank}" for rank in range(_SIZE)]


async def _create(world: World, name: str) -> None:
    said = {"gang": name.partition("-")[0], "gang-size": str(_SIZE)}
    # No node has room for two of them.
    cpus = str(world.cluster.cpus_per_node // 2 + 1)
    await world.create(name, slurm=said, cpus=cpus, memory="100Mi", grace=1)


async def _delete(world: World, gang: str) -> None:
    async with asyncio.TaskGroup() as group:
        for name in _members(gang):
            group.create_task(world.delete(name))


async def _one_runs(world: World, gangs: tuple[str, str]) -> str | None:
    running = [gang for gang in gangs if await _runs(world, gang)]
    assert len(running) < 2, f"both of {gangs} run on {_NODES} nodes"
    return running[0] if running else None


async def _runs(world: World, gang: str) -> bool:
    found = await world.kube.items("pods", namespace=world.namespace)
    mine = [it for it in found if it["metadata"]["name"] in _members(gang)]
    return len(mine) == _SIZE and all(pods.phase(it) == "Running" for it in mine)


async def _both_have_jobs(world: World) -> bool:
    return len(await world.slurm.live_placeholders(world.namespace)) == 2


async def _gone(world: World, names: list[str]) -> bool:
    """Whether the watch has shown the end of each."""
    return all(any(it.gone for it in world.history.of(name)) for name in names)


def _check(world: World, winner: str, loser: str) -> None:
    """One watch has reported all of it, in the order of the writes."""
    lives = {gang: [world.history.of(name) for name in _members(gang)] for gang in (winner, loser)}
    for gang, seen in lives.items():
        last_bound = max(_first(life, _is_bound) for life in seen)
        first_left = min(_first(life, _has_left) for life in seen)
        assert last_bound < first_left, f"gang {gang} was never whole"
        jobs = {pods.annotation(life[-1].pod, pods.JOB_ID) for life in seen}
        assert len(jobs) == 1, f"gang {gang} had the jobs {jobs}"
    stopped = max(_first(life, _has_left) for life in lives[winner])
    started = min(_first(life, _is_bound) for life in lives[loser])
    assert stopped < started, f"a pod of {loser} was bound while one of {winner} was there"


def _first(life: list[Seen], holds: Callable[[Seen], bool]) -> float:
    return next(it.at for it in life if holds(it))


def _is_bound(seen: Seen) -> bool:
    return pods.node_of(seen.pod) is not None


def _has_left(seen: Seen) -> bool:
    return seen.gone or pods.has_ended(seen.pod)
