"""Placeholders that are left over are found and ended. Jobs that only look like them are not."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec
import pytest

from tests.support import pods
from tests.support.slurm import Record
from tests.support.world import World

_MANY: Final = 500
# For clusters on which each placeholder is a process, or a real server gives each answer.
_FEWER: Final = 60


@pytest.mark.live_on("26.05")
async def test_namespace_with_hundreds_of_pods_goes_and_leaves_no_job(
    world: World, elsewhere: str
) -> None:
    """Some of the pods run, the others wait. Other pods and jobs beside them are untouched."""
    sandbox = world.cluster.name == "sandbox-26.05"
    count = _MANY if sandbox else _FEWER
    await world.create()
    bystander = await world.running()
    kept = await world.placeholder(bystander)
    native = await world.native_job("native", partition=world.cluster.partition)
    await _create(world, elsewhere, count)
    await world.until("all have a job", lambda: _have_jobs(world, elsewhere, count), seconds=120)

    await world.kube.delete("namespaces", elsewhere)
    await world.until("no pod is left", lambda: _is_empty(world, elsewhere), seconds=120)
    # This takes a while, because each job is looked at again before it is cancelled.
    await world.until("no job is left", lambda: _no_job(world, elsewhere), seconds=120)
    world.unharmed(bystander)
    for job_id in (kept.job_id, native):
        record = await world.slurm.job(job_id)
        assert record is not None
        assert record.live


async def test_scheduler_that_starts_ends_its_own_leftovers_and_no_lookalike(world: World) -> None:
    await world.create()
    pod = await world.running()
    own = await world.placeholder(pod)
    world.scheduler.kill()
    # The job is held: if it ran, containers of its pod might run too.
    tag = own.tag | {"uids": ["11111111-2222-3333-4444-555555555555"]}
    left = await world.native_job(own.name, admin_comment=_text(tag), hold=True, **_where(world))
    others = [
        await _lookalike(world, own, cluster="another-cluster"),
        await _lookalike(world, own, scheduler="another-scheduler"),
        await _lookalike(world, own, v=2),
        await world.native_job(own.name, admin_comment="{not json", **_where(world)),
        await world.native_job(own.name, comment=_text(own.tag), **_where(world)),
        await world.native_job(own.name, user="alice", comment=_text(own.tag), **_where(world)),
    ]
    world.scheduler.start()
    await world.job_ended(left)
    await world.create("second")
    await world.running("second")
    for job_id in (own.job_id, *others):
        record = await world.slurm.job(job_id)
        assert record is not None
        assert record.live, record
    world.unharmed(pod)


async def _lookalike(world: World, own: Record, **changes: Any) -> int:
    """Submit a job with the same name whose tag differs by `changes`. Returns its id."""
    return await world.native_job(own.name, admin_comment=_text(own.tag | changes), **_where(world))


def _text(tag: dict[str, Any]) -> str:
    return msgspec.json.encode(tag).decode()


def _where(world: World) -> dict[str, str]:
    return {"partition": world.cluster.partition}


def _pod(world: World, name: str, *, hold: bool) -> dict[str, Any]:
    return pods.pod(
        name,
        cpus="1",
        memory="100Mi",
        grace=1,
        slurm={"hold": "true"} if hold else {},
        container=world.cluster.container,
    )


async def _create(world: World, namespace: str, count: int) -> None:
    places = asyncio.Semaphore(32)

    async def one(index: int) -> None:
        async with places:
            body = _pod(world, f"many-{index}", hold=index % 3 == 0)
            await world.kube.create("pods", body, namespace=namespace)

    async with asyncio.TaskGroup() as group:
        for index in range(count):
            group.create_task(one(index))


async def _have_jobs(world: World, namespace: str, count: int) -> bool:
    found = await world.kube.items("pods", namespace=namespace)
    return sum(pods.annotation(it, pods.JOB_ID) is not None for it in found) == count


async def _is_empty(world: World, namespace: str) -> bool:
    return not await world.kube.items("pods", namespace=namespace)


async def _no_job(world: World, namespace: str) -> bool:
    return not await world.slurm.live_placeholders(namespace)
