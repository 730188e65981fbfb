"""slurmctld has lost its state, so that ids start again and other users get them, or it has
forgotten the jobs that have ended. Each pod keeps its node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from tests.stories.clusters import LIVE, told_on
from tests.support import pods
from tests.support.handover import script_begun
from tests.support.kube import Object
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import Record
from tests.support.world import World

_NAMES: Final = tuple(f"many-{number}" for number in range(20))
_FOREIGN: Final = 5


cluster = told_on("sandbox-26.05", *LIVE)


@pytest.mark.parametrize("away", [False, True], ids=["scheduler there", "scheduler away"])
async def test_every_pod_keeps_its_node_though_its_id_is_anothers_now(
    world: World, away: bool
) -> None:
    await world.cluster.lose_state()  # so that ids are small and will be reused
    found = await _running(world)
    before = await world.one_placeholder_each()
    if away:
        await asyncio.to_thread(world.scheduler.kill)
        foreign = await _others_get_their_ids(world)
    else:
        with _standing_still(world.scheduler):
            foreign = await _others_get_their_ids(world)
    assert {job.job_id for job in before.values()} & set(foreign)
    if away:
        await asyncio.to_thread(world.scheduler.start)
    await world.until("each pod has asked for its node again", lambda: _asked_again(world, found))
    await world.set_partition(world.cluster.partition)
    await world.until("each pod holds its node again", lambda: _hold_their_nodes(world))
    world.unharmed(*found)
    for job_id in foreign:
        record = await world.slurm.job(job_id)
        assert record is not None
        assert _lives_or_its_node_ended_it(record), record
    assert not [it for it in found if "BrakeEngaged" in await _reasons(world, it)]


@pytest.mark.live_on("26.05")
async def test_pods_that_end_once_their_ids_are_others_end_no_job_of_others(world: World) -> None:
    await world.cluster.lose_state()  # so that ids are small and will be reused
    found = await _running(world)
    before = await world.one_placeholder_each()
    with _standing_still(world.scheduler):
        foreign = await _others_get_their_ids(world)
    names = [pod["metadata"]["name"] for pod in found]
    await asyncio.gather(*map(world.delete, names))
    await asyncio.gather(*map(world.gone, names))
    await world.set_partition(world.cluster.partition)
    await world.until("no pod has a job", lambda: _none_is_left(world))
    assert {job.job_id for job in before.values()} & set(foreign)
    for job_id in foreign:
        record = await world.slurm.job(job_id)
        assert record is not None
        assert _lives_or_its_node_ended_it(record), record


@pytest.mark.live_on("26.05")
async def test_pods_that_run_come_before_the_jobs_that_were_in_the_queue_already(
    world: World,
) -> None:
    found = await _running(world)
    await world.cluster.lose_state()
    await world.set_partition(world.cluster.partition, state="DOWN")
    whole = await world.native_job(
        "whole",
        partition=world.cluster.partition,
        nodes=str(len(world.cluster.nodes)),
        tasks=len(world.cluster.nodes),
        cpus_per_task=world.cluster.cpus_per_node,
    )
    await world.until("each pod has asked for its node again", lambda: _asked_again(world, found))
    await world.set_partition(world.cluster.partition)
    await world.until("each pod holds its node again", lambda: _hold_their_nodes(world))
    record = await world.slurm.job(whole)
    assert record is not None
    assert record.states == ("PENDING",)
    world.unharmed(*found)


async def test_pods_whose_jobs_were_forgotten_while_nobody_looked_keep_their_nodes(
    world: World,
) -> None:
    """After MinJobAge it is not known how the jobs have ended, which must end no pod."""
    found = await _running(world)
    before = await world.one_placeholder_each()
    await asyncio.to_thread(world.scheduler.kill)
    for job in before.values():
        await world.slurm.cancel(job.job_id)
        await world.job_ended(job.job_id)
    await world.cluster.purge()
    assert not [it for it in before.values() if await world.slurm.job(it.job_id)]
    await asyncio.to_thread(world.scheduler.start)
    await world.until("each pod holds its node again", lambda: _hold_their_nodes(world))
    world.unharmed(*found)
    assert not [it for it in found if "BrakeEngaged" in await _reasons(world, it)]


def _lives_or_its_node_ended_it(record: Record) -> bool:
    """slurmd knows only ids, and the script of the former job with that id ends only now. This can
    make the new job fail, or its script cannot start, and then Slurm cancels it (both measured on
    24.11.5). The auditor tells whether the scheduler has (I8).
    """
    return record.live or record.reason == "NonZeroExitCode" or record.states[0] == "CANCELLED"


@contextmanager
def _standing_still(scheduler: SchedulerProcess) -> Iterator[None]:
    """Suspend the scheduler for the block. Otherwise it might submit new jobs for the pods and get
    their old ids back before other users have them.
    """
    scheduler.suspend()
    try:
        yield
    finally:
        scheduler.resume()


async def _others_get_their_ids(world: World) -> list[int]:
    """Make Slurm forget all jobs, and submit waiting jobs of others, which get the first ids."""
    for node in world.cluster.nodes_for_scripts:
        world.mend_later(node)
    await world.cluster.lose_state()
    await world.set_partition(world.cluster.partition, state="DOWN")
    return [
        await world.native_job("foreign", partition=world.cluster.partition, cpus_per_task=1)
        for _ in range(_FOREIGN)
    ]


async def _running(world: World) -> list[Object]:
    world.audit.accepted["I2"] = (
        "Slurm has lost the records of the jobs that the pods were bound by"
    )
    found = await world.small_ones(*_NAMES)
    if not world.slurm.external:
        # A script marks its own job when it begins. On a crowded machine this takes seconds, and
        # the job with that id might be another user's by then.
        for pod in found:
            await script_begun(world, pod)
    return found


async def _asked_again(world: World, found: list[Object]) -> bool:
    jobs = await world.slurm.live_placeholders(world.namespace)
    wanted = {pod["metadata"]["uid"]: pods.node_of(pod) for pod in found}
    return {job.tag["uids"][0]: job.tag.get("node") for job in jobs} == wanted


async def _hold_their_nodes(world: World) -> bool:
    await _resume_drained(world)
    return await world.each_is_where_its_job_is()


async def _resume_drained(world: World) -> None:
    """Do what docs/operations.md tells the operator. slurmctld drains a node whose slurmd still
    runs a script when a new job with its id is to start there (24.11.5).
    """
    for node in world.cluster.nodes_for_scripts:
        answer = await world.slurm.ask("GET", f"node/{node}")
        (seen,) = answer.body["nodes"]
        if "DRAIN" in seen["state"] and seen["reason"].startswith("Duplicate jobid"):
            await world.slurm.resume_node(node)


async def _none_is_left(world: World) -> bool:
    return not await world.slurm.live_placeholders(world.namespace)


async def _reasons(world: World, pod: Object) -> set[str]:
    events = await world.kube.events_of(pod["metadata"]["name"], namespace=world.namespace)
    return {event["reason"] for event in events}
