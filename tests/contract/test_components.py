"""A heterogeneous job of several components is one job by the id of its first.

The components of a gang are its shapes, such as a small leader and large workers.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest
from msgspec.structs import replace

from slurmapi import BaseState, Job, JobState, JobSubmission, SlurmRefused
from tests.contract.conftest import is_over
from tests.contract.gangs import EXTERNAL, SCRIPTS_26, SECONDS, WITH_SCRIPTS, WITH_TIERS, Gangs
from tests.rigs.slurm_conf import HIGH_PARTITION


class Shapes:
    """Heterogeneous jobs of a leader on one node and workers on another, of one peer."""

    def __init__(self, gangs: Gangs) -> None:
        self.gangs = gangs
        self.client = gangs.client

    def parts(self, **more: Any) -> tuple[JobSubmission, JobSubmission]:
        """The leader on the second node of the pair, two workers with all GPUs on the first."""
        first, second = self.gangs.pair
        gpus = self.gangs.peer.gpus_per_node // 2
        leader = self.gangs.jobs.placeholder(required_nodes=(second,), admin_comment="leader")
        worker = replace(
            leader,
            required_nodes=(first,),
            admin_comment="workers",
            tasks_per_node=2,
            gres=f"gres/gpu:{gpus}",
        )
        return replace(leader, **more), replace(worker, **more)

    async def submit(self, *parts: JobSubmission) -> int:
        submitted = await self.client.submit(parts[0], others=parts[1:])
        return self.gangs.jobs.keep(submitted.job_id)

    async def running(self, **more: Any) -> Job:
        await self.gangs.free(*self.gangs.pair)
        return await self.gangs.jobs.running(await self.submit(*self.parts(**more)))

    async def states(self, job: Job, states: list[BaseState]) -> None:
        """Wait until the components are in these states."""
        async with asyncio.timeout(SECONDS):
            while [part.state.base for part in job.parts] != states:
                await asyncio.sleep(0.05)
                job = await self.client.job(job.job_id)

    async def with_nodes(self, job: Job, nodes: list[tuple[str, ...]]) -> Job:
        """Wait until the components tell these nodes: the record of one that is COMPLETING may lack
        them (measured).
        """
        async with asyncio.timeout(SECONDS):
            while [part.nodes for part in job.parts] != nodes:
                await asyncio.sleep(0.05)
                job = await self.client.job(job.job_id)
        return job


@pytest.fixture
def shapes(gangs: Gangs) -> Shapes:
    return Shapes(gangs)


async def test_all_components_are_told_by_the_id_of_the_first(shapes: Shapes) -> None:
    first, second = shapes.gangs.pair
    job = await shapes.running()
    assert job.nodes == (second, first)
    assert list(job.tasks_by_node.items()) == [(second, 1), (first, 2)]
    assert (job.state.base, job.tasks) == (BaseState.RUNNING, 3)
    assert [part.admin_comment for part in job.parts] == ["leader", "workers"]
    assert job.ids == (job.job_id, job.job_id + 1)
    assert job.start_time is not None
    # Slurm excludes for each component the nodes that another requires.
    assert [tuple(part.excluded_nodes) for part in job.parts] == [(first,), (second,)]
    states = await shapes.client.job_states([job.job_id])
    assert states == {job.job_id: JobState(BaseState.RUNNING)}
    assert job.leader is None
    assert job.ids[1] not in await shapes.client.job_states()
    other = await shapes.client.job(job.ids[1])
    assert (other.parts, other.nodes, other.leader) == ((), (first,), job.job_id)


async def test_record_of_a_component_tells_its_place(shapes: Shapes) -> None:
    job = await shapes.running()
    for number, job_id in enumerate(job.ids):
        record = await shapes.gangs.raw(job_id)
        assert (record["het_job_id"], record["het_job_offset"]) == (job.job_id, number)
        assert record["het_job_id_set"] == f"{job.ids[0]}-{job.ids[1]}"
        assert record["batch_flag"] is not shapes.gangs.peer.external


async def test_cancel_of_the_first_ends_all(shapes: Shapes) -> None:
    first, second = shapes.gangs.pair
    job = await shapes.running()
    await shapes.gangs.end(job)
    job = await shapes.client.job(job.job_id)
    assert {part.state.base for part in job.parts} == {BaseState.CANCELLED}
    assert not job.state.partial
    assert await shapes.client.cancel([job.job_id]) == {}
    await shapes.gangs.jobs.running(await shapes.gangs.next_on(first))
    await shapes.gangs.jobs.running(await shapes.gangs.next_on(second))


async def test_cancel_of_another_component_ends_that_one_alone(shapes: Shapes) -> None:
    first, _ = shapes.gangs.pair
    job = await shapes.running()
    assert await shapes.client.cancel([job.ids[1]]) == {}
    await shapes.states(job, [BaseState.RUNNING, BaseState.CANCELLED])
    await shapes.gangs.jobs.running(await shapes.gangs.next_on(first))
    state = (await shapes.client.job_states([job.job_id]))[job.job_id]
    assert (state.base, state.ended, state.partial) == (BaseState.CANCELLED, True, True)
    assert (await shapes.client.job(job.job_id)).state == state
    assert await shapes.client.cancel([job.job_id]) == {}
    await shapes.states(job, [BaseState.CANCELLED] * 2)


async def test_components_wait_until_all_have_room(shapes: Shapes) -> None:
    await shapes.gangs.free(*shapes.gangs.pair)
    full = await shapes.gangs.fill(shapes.gangs.pair[0])
    job_id = await shapes.submit(*shapes.parts())
    job = await shapes.gangs.jobs.reasoned(job_id, {"Resources"})
    assert (job.state, job.nodes) == (JobState(BaseState.PENDING), ())
    assert job.tasks_by_node == {}
    await shapes.gangs.end(full)
    await shapes.gangs.jobs.running(job_id)


async def test_pending_job_whose_component_is_cancelled_never_starts(shapes: Shapes) -> None:
    await shapes.gangs.free(*shapes.gangs.pair)
    full = await shapes.gangs.fill(shapes.gangs.pair[0])
    job_id = await shapes.submit(*shapes.parts())
    job = await shapes.gangs.jobs.reasoned(job_id, {"Resources"})
    assert await shapes.client.cancel([job.ids[1]]) == {}
    state = (await shapes.client.job_states([job_id]))[job_id]
    assert (state.base, state.partial) == (BaseState.CANCELLED, True)
    await shapes.gangs.end(full)
    # It starts, so Slurm has seen that there is room for the component that was cancelled.
    await shapes.gangs.running(required_nodes=shapes.gangs.pair[:1])
    await shapes.states(job, [BaseState.PENDING, BaseState.CANCELLED])


async def test_update_concerns_one_component(shapes: Shapes) -> None:
    job = await shapes.running()
    await shapes.client.update_job(job.job_id, comment="one")
    await shapes.client.update_job(job.ids[1], comment="two")
    job = await shapes.client.job(job.job_id)
    assert [part.comment for part in job.parts] == ["one", "two"]


async def test_held_component_holds_all_back(shapes: Shapes) -> None:
    await shapes.gangs.free(*shapes.gangs.pair)
    leader, workers = shapes.parts()
    job_id = await shapes.submit(leader, replace(workers, held=True))
    job = await shapes.gangs.jobs.reasoned(job_id, {"JobHeldUser"})
    assert job.held
    await shapes.gangs.end(await shapes.gangs.running(required_nodes=shapes.gangs.pair[:1]))
    assert (await shapes.client.job(job_id)).state.base is BaseState.PENDING
    await shapes.client.update_job(job.ids[1], held=False)
    await shapes.gangs.jobs.running(job_id)


async def test_twin_waits_for_all_components(shapes: Shapes) -> None:
    name = f"twins-{id(shapes)}"
    job = await shapes.running(name=name)
    twin = await shapes.submit(*shapes.parts(name=name))
    await shapes.gangs.jobs.reasoned(twin, {"Dependency"})
    await shapes.gangs.end(job)
    await shapes.gangs.jobs.running(twin)


async def test_all_components_end_when_a_node_of_one_fails(shapes: Shapes) -> None:
    job = await shapes.running()
    await shapes.gangs.lose(shapes.gangs.pair[0])
    job = await shapes.gangs.jobs.until(job.job_id, is_over)
    assert {part.state.base for part in job.parts} == {BaseState.NODE_FAIL}
    assert (job.state.base, job.state_reason) == (BaseState.NODE_FAIL, "NodeDown")


@pytest.mark.parametrize("gang_peer", WITH_TIERS, indirect=True)
async def test_all_components_end_when_a_node_of_one_is_taken(shapes: Shapes) -> None:
    first, _ = shapes.gangs.pair
    job = await shapes.running()
    gpus = shapes.gangs.all_gpus
    await shapes.gangs.running(partition=HIGH_PARTITION, required_nodes=(first,), gres=gpus)
    job = await shapes.gangs.jobs.until(job.job_id, is_over)
    assert {part.state.base for part in job.parts} == {BaseState.PREEMPTED}


@pytest.mark.parametrize("gang_peer", WITH_SCRIPTS, indirect=True)
async def test_all_components_end_with_the_script(shapes: Shapes) -> None:
    await shapes.gangs.free(*shapes.gangs.pair)
    job_id = await shapes.submit(*shapes.parts(script="#!/bin/sh\nexec sleep 2\n"))
    job = await shapes.gangs.jobs.until(job_id, is_over)
    assert {part.state.base for part in job.parts} == {BaseState.COMPLETED}


async def test_no_two_components_share_a_node(shapes: Shapes) -> None:
    leader, workers = shapes.parts()
    assert await _refused(
        shapes, leader, replace(workers, required_nodes=leader.required_nodes)
    ) == (2018)
    await shapes.gangs.free(*shapes.gangs.peer.nodes)
    small = [replace(it, required_nodes=(), gres=None) for it in (leader, workers)]
    job = await shapes.gangs.jobs.running(await shapes.submit(*small))
    assert len(job.nodes) == 2


@pytest.mark.parametrize(
    ("wrong", "number"), [({"partition": "nowhere"}, 2000), ({"cpus": 1000}, 2014)]
)
async def test_component_that_is_refused_leaves_none_alive(
    shapes: Shapes, wrong: dict[str, Any], number: int
) -> None:
    leader, workers = shapes.parts()
    before = await shapes.gangs.submit(held=True)
    workers = replace(workers, required_nodes=(), gres=None, **wrong)
    if shapes.gangs.peer.major == "26.05" and number == 2014:
        workers = replace(workers, cpus=65, tasks_per_node=1)
    assert await _refused(shapes, leader, workers) == number
    after = await shapes.gangs.submit(held=True)
    between = await shapes.client.job_states(range(before + 1, after))
    assert all(state.ended for state in between.values())
    assert between


async def _refused(shapes: Shapes, *parts: JobSubmission) -> int:
    with pytest.raises(SlurmRefused) as refused:
        await shapes.submit(*parts)
    return refused.value.error_number


WITH_THREE: Final = (*EXTERNAL, *SCRIPTS_26)


@pytest.mark.parametrize("lost", [0, 1])
async def test_component_that_loses_its_only_node_ends_all(shapes: Shapes, lost: int) -> None:
    """Also if the job may lose nodes."""
    job = await shapes.running(kill_on_node_fail=False)
    await shapes.gangs.lose(job.parts[lost].nodes[0])
    job = await shapes.gangs.jobs.until(job.job_id, is_over)
    assert {part.state.base for part in job.parts} == {BaseState.NODE_FAIL}


@pytest.mark.parametrize("large", [0, 1])
@pytest.mark.parametrize("gang_peer", WITH_THREE, indirect=True)
async def test_only_the_first_component_may_lose_nodes(shapes: Shapes, large: int) -> None:
    """If another loses one, Slurm ends the first. With its script all others end too."""
    gone, kept, other = shapes.gangs.peer.nodes[:3]
    await shapes.gangs.free(gone, kept, other)
    parts = list(shapes.parts(kill_on_node_fail=False))
    parts[1 - large] = replace(parts[1 - large], required_nodes=(other,))
    parts[large] = replace(parts[large], nodes=2, required_nodes=(gone, kept))
    job = await shapes.gangs.jobs.running(await shapes.submit(*parts))
    await shapes.gangs.lose(gone)
    if not large:
        job = await shapes.gangs.on(job, kept, other)
        return
    follows = BaseState.RUNNING if shapes.gangs.peer.external else BaseState.FAILED
    await shapes.states(job, [BaseState.NODE_FAIL, follows])
    job = await shapes.with_nodes(job, [(other,), (kept,)])
    assert (job.state.ended, job.state.partial) == (True, shapes.gangs.peer.external)


@pytest.mark.parametrize("gang_peer", EXTERNAL, indirect=True)
async def test_component_gives_nodes_back_by_its_own_id(shapes: Shapes) -> None:
    gone, kept, leads = shapes.gangs.peer.nodes[:3]
    await shapes.gangs.free(gone, kept, leads)
    leader, workers = shapes.parts()
    leader = replace(leader, required_nodes=(leads,))
    workers = replace(workers, nodes=2, required_nodes=(gone, kept))
    job = await shapes.gangs.jobs.running(await shapes.submit(leader, workers))
    await shapes.client.update_job(job.ids[1], required_nodes=(kept,))
    job = await shapes.client.job(job.job_id)
    assert [part.nodes for part in job.parts] == [(leads,), (kept,)]
    assert job.state == JobState(BaseState.RUNNING)
    await shapes.gangs.jobs.running(await shapes.gangs.next_on(gone))


async def test_pending_component_is_updated_by_its_own_id(shapes: Shapes) -> None:
    first, second = shapes.gangs.pair
    await shapes.gangs.free(first, second)
    job_id = await shapes.submit(*shapes.parts(held=True))
    job = await shapes.client.job(job_id)
    await shapes.client.update_job(job_id, time_limit_minutes=7)
    await shapes.client.update_job(job.ids[1], time_limit_minutes=9, excluded_nodes=(second,))
    job = await shapes.client.job(job_id)
    assert [part.time_limit_minutes for part in job.parts] == [7, 9]
    assert [tuple(part.excluded_nodes) for part in job.parts] == [(first,), (second,)]
    for each in job.ids:
        await shapes.client.update_job(each, held=False)
    job = await shapes.gangs.jobs.running(job_id)
    assert job.nodes == (second, first)
