"""Story 5: any server may stop amid work. Pods end up where they should, and no job is doubled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tests.stories.test_nodes import marked
from tests.support.cluster import Cluster
from tests.support.kube import Object
from tests.support.slurm import Record
from tests.support.world import World

_RUNNING = ("runs-0", "runs-1")
_WAITING = ("waits-0", "waits-1")
# The usual taint, but with an effect that ends no other pod on the Node.
_DEAD = {"key": "node.kubernetes.io/out-of-service", "effect": "NoSchedule"}
_RESTARTS = [
    pytest.param(component, kill, id=f"{component}-{'killed' if kill else 'stopped'}")
    for component in ("slurmrestd", "slurmctld")
    for kill in (False, True)
]


@dataclass(frozen=True)
class Scene:
    """Some pods run, and others wait behind a native job, `filler`."""

    filler: int
    running: tuple[Object, ...]


@pytest.mark.parametrize(("component", "kill"), _RESTARTS)
async def test_restarted_server_harms_and_doubles_nothing(
    world: World, component: str, kill: bool
) -> None:
    await _outlives_restart(world, component, kill=kill)


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
@pytest.mark.live_on("26.05")
async def test_restarted_api_server_harms_and_doubles_nothing(world: World, kill: bool) -> None:
    await _outlives_restart(world, "kube-apiserver", kill=kill)


async def _outlives_restart(world: World, component: str, *, kill: bool) -> None:
    scene = await _scene(world)
    if component == "slurmctld":
        await world.cluster.save(scene.filler)
    await world.cluster.stop(component, kill=kill)
    await world.cluster.start(component)
    await _all_end_well(world, scene)


class TestUnsavedCrash:
    """slurmctld is killed before it has saved: it forgets jobs and starts, and reuses their ids.

    Only on clusters where no placeholder is a process. If a slurmd still runs the script of a
    forgotten job, Slurm ends the next job with that id, whoever owns it (measured on 24.11.5).
    """

    @pytest.fixture(
        params=[
            pytest.param("sandbox_26", id="sandbox-26.05"),
            pytest.param("live_26", id="live-26.05", marks=pytest.mark.live),
        ]
    )
    def cluster(self, request: pytest.FixtureRequest) -> Cluster:
        found: Cluster = request.getfixturevalue(request.param)
        return found

    async def test_forgotten_jobs_harm_no_pod(self, world: World) -> None:
        # Slurm must have saved that earlier jobs ended. Otherwise they would run again, and nobody
        # would end them.
        scene = await _scene(world, saved=True)
        await world.cluster.stop("slurmctld", kill=True)
        await world.cluster.start("slurmctld")
        await _all_end_well(world, scene)


@pytest.mark.parametrize("component", ["slurmrestd", "slurmctld"])
@pytest.mark.live_on("26.05")
async def test_pod_made_while_slurm_is_away_is_served_later(world: World, component: str) -> None:
    await world.cluster.stop(component)
    try:
        await world.create()
        await world.create("second")
    finally:
        await world.cluster.start(component)
    await world.running()
    await world.running("second")
    await world.one_placeholder_each()


@pytest.mark.live_on("26.05")
async def test_pod_deleted_while_slurm_is_away_leaves_no_job(world: World) -> None:
    await world.create()
    job = await world.placeholder(await world.running())
    await world.cluster.stop("slurmrestd")
    try:
        await world.delete()
        await world.gone()
    finally:
        await world.cluster.start("slurmrestd")
    await world.job_ended(job.job_id)


@pytest.mark.live_on("26.05")
async def test_killed_scheduler_finds_waiting_and_bound_pods_as_they_were(world: World) -> None:
    scene = await _scene(world)
    before = await world.one_placeholder_each()
    world.scheduler.kill()
    world.scheduler.start()
    await _all_end_well(world, scene)
    after = await world.one_placeholder_each()
    assert {uid: it.job_id for uid, it in after.items()} == {
        uid: it.job_id for uid, it in before.items()
    }


@pytest.mark.live_on("26.05")
async def test_pods_allocated_while_the_scheduler_is_dead_are_bound_later(world: World) -> None:
    scene = await _scene(world)
    before = await world.one_placeholder_each()
    world.scheduler.kill()
    await world.end_native(scene.filler)
    await world.until("all jobs run", lambda: _all_jobs_run(world))
    world.scheduler.start()
    await _all_end_well(world, scene)
    after = await world.one_placeholder_each()
    assert {it.job_id for it in after.values()} == {it.job_id for it in before.values()}


@pytest.mark.live_on("26.05")
async def test_pods_deleted_while_the_scheduler_is_dead_leave_no_job(world: World) -> None:
    await _scene(world)
    job = await world.placeholder(await world.running(_RUNNING[0]))
    world.scheduler.kill()
    for name in (_RUNNING[0], _WAITING[0]):
        await world.delete(name)
        await world.gone(name)
    world.scheduler.start()
    await world.until("the job of the pod that waited is over", lambda: _others_live(world, job))
    # It is unknown whether the other pod's containers have stopped, until its Node counts as dead.
    async with marked(world, job.nodes, spec={"taints": [_DEAD]}):
        left = await world.one_placeholder_each()
    assert {it.tag["unit"] for it in left.values()} == {_RUNNING[1], _WAITING[1]}


async def _others_live(world: World, job: Record) -> bool:
    live = await world.slurm.live_placeholders(world.namespace)
    return {it.tag["unit"] for it in live} == {job.tag["unit"], _RUNNING[1], _WAITING[1]}


@pytest.mark.live_on("26.05")
async def test_scheduler_killed_again_and_again_doubles_nothing(world: World) -> None:
    names = [f"burst-{index}" for index in range(12)]
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(world.create(name))
    for _ in range(3):
        await asyncio.to_thread(world.scheduler.kill)
        await asyncio.to_thread(world.scheduler.start)
    for name in names:
        await world.running(name)
    placeholders = await world.one_placeholder_each()
    assert len(placeholders) == len(names)
    ever = await world.slurm.placeholders(world.namespace)
    started = [it.tag["unit"] for it in ever if it.nodes]
    assert sorted(started) == sorted(names), "a unit had two placeholders with nodes"


@pytest.mark.live_on("26.05")
async def test_stopped_scheduler_ends_in_order_and_leaves_pods_alone(world: World) -> None:
    scene = await _scene(world)
    assert await asyncio.to_thread(world.scheduler.stop) == 0
    world.unharmed(*scene.running)
    await asyncio.to_thread(world.scheduler.start)
    await _all_end_well(world, scene)


async def _scene(world: World, *, saved: bool = False) -> Scene:
    filler = await world.fill(leave_cpus=8)
    if saved:
        await world.cluster.save(filler)
    for name in _RUNNING:
        await world.create(name)
    for name in _WAITING:
        await world.create(name, cpus="32")
    running = [await world.running(name) for name in _RUNNING]
    for name in _WAITING:
        await world.waiting(name)
    return Scene(filler, tuple(running))


async def _all_end_well(world: World, scene: Scene) -> None:
    await world.end_native(scene.filler)
    for name in (*_RUNNING, *_WAITING):
        await world.running(name)
    world.unharmed(*scene.running)
    await world.until("each runs where its job does", world.each_is_where_its_job_is)


async def _all_jobs_run(world: World) -> bool:
    live = await world.slurm.live_placeholders(world.namespace)
    return all(record.states == ("RUNNING",) for record in live)
