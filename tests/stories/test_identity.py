"""A scheduler restarts with another cluster identity: no pod is harmed, and it can go back."""

from __future__ import annotations

import asyncio

import pytest

from tests.support import pods
from tests.support.slurm import Record
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")

_OTHER = "another-cluster"


async def test_other_identity_leaves_the_pod_alone_until_its_former_job_ends(
    world: World,
) -> None:
    former = await _under_another_identity(world)
    lost = await world.event("PlaceholderLost")
    assert f"Slurm job {former.job_id} was submitted for this pod" in lost["message"]
    assert former.tag["cluster"] in lost["message"]
    assert not await _of(world, _OTHER)
    await world.slurm.cancel(former.job_id)
    later = await world.until("the new job runs", lambda: _runs(world, _OTHER))
    assert later.nodes == former.nodes
    await world.until("the pod names it", lambda: _names(world, later.job_id))
    world.unharmed(await world.running())


async def test_former_identity_unites_the_pod_with_its_former_job(world: World) -> None:
    former = await _under_another_identity(world)
    await world.event("PlaceholderLost")
    await _restart_as(world, former.tag["cluster"])
    world.unharmed(await world.running())
    assert (await world.one_placeholder_each()).popitem()[1].job_id == former.job_id
    await world.slurm.cancel(former.job_id)
    await world.gone()


async def _under_another_identity(world: World) -> Record:
    """Restart the scheduler with another identity while a pod runs. Returns the pod's job."""
    await world.create()
    former = await world.placeholder(await world.running())
    world.audit.clusters.add(_OTHER)
    await _restart_as(world, _OTHER)
    return former


async def _restart_as(world: World, cluster: str) -> None:
    await asyncio.to_thread(world.scheduler.stop)
    world.scheduler.add_flags(f"--cluster-id={cluster}")
    await asyncio.to_thread(world.scheduler.start)


async def _of(world: World, cluster: str) -> list[Record]:
    live = await world.slurm.live_placeholders(world.namespace)
    return [record for record in live if record.tag["cluster"] == cluster]


async def _runs(world: World, cluster: str) -> Record | None:
    found = await _of(world, cluster)
    return found[0] if found and found[0].states == ("RUNNING",) else None


async def _names(world: World, job_id: int) -> bool:
    pod = await world.kube.find("pods", "train", namespace=world.namespace)
    return pod is not None and pods.annotation(pod, pods.JOB_ID) == str(job_id)
