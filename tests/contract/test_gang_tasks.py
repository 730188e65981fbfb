"""Alike pods are the tasks of one job: packed by Slurm, or so many on each node."""

from __future__ import annotations

import pytest

from slurmapi import Job
from tests.contract.gangs import EXTERNAL, WITH_SCRIPTS, Gangs


async def test_packed_tasks_have_their_memory_on_the_node_that_slurm_finds(gangs: Gangs) -> None:
    await gangs.free(*gangs.pair)
    job = await gangs.running(nodes=None, tasks=6, cpus=8, memory_mib=7999)
    (node,) = job.nodes
    assert await gangs.layout(job) == [(node, 48, 48_000)]
    assert (job.tasks, job.cpus_per_task, job.tasks_per_node) == (6, 8, 0)
    assert (job.cpus_by_node, job.tasks_by_node) == ({node: 48}, {node: 6})


async def test_packed_tasks_are_counted_on_each_node(gangs: Gangs) -> None:
    await gangs.free(*gangs.pair)
    job = await gangs.running(nodes=None, tasks=10, cpus=12, memory_mib=120)
    first, second = job.nodes
    assert not job.laid_out
    job = await gangs.client.laid_out(job)
    assert job.cpus_by_node == {first: 60, second: 60}
    assert list(job.tasks_by_node.items()) == [(first, 5), (second, 5)]
    await gangs.client.update_job(job.job_id, required_nodes=(first,))
    smaller = await gangs.client.job(job.job_id)
    assert smaller.laid_out_as(job).tasks_by_node == {first: 5}
    job = await gangs.client.laid_out(smaller)
    assert (job.tasks, job.cpus_by_node, job.tasks_by_node) == (10, {first: 60}, {first: 5})


# Without a slurmd the node would lose the GPUs, and later tests with it: see the second one below.
@pytest.mark.parametrize("gang_peer", WITH_SCRIPTS, indirect=True)
async def test_node_is_full_when_it_has_no_gpus_for_another_task(gangs: Gangs) -> None:
    job = await gangs.client.laid_out(await _with_gpus_by_task(gangs))
    assert list(job.tasks_by_node.values()) == [2, 1]
    waiting = await gangs.next_on(job.nodes[0])
    await gangs.jobs.reasoned(waiting, {"Resources", "Priority"})
    gpus = gangs.peer.gpus_per_node // 2
    rest = await gangs.running(required_nodes=(job.nodes[1],), gres=f"gres/gpu:{gpus}")
    await gangs.end(rest)


@pytest.mark.parametrize("gang_peer", WITH_SCRIPTS, indirect=True)
async def test_gpus_of_tasks_are_given_back_by_nodes_with_a_slurmd(gangs: Gangs) -> None:
    job = await _with_gpus_by_task(gangs)
    details = (await gangs.raw(job))["gres_detail"]
    assert [it.partition("(")[0] for it in details] == ["gpu:h100:8", "gpu:h100:4"]
    await gangs.end(job)
    await gangs.jobs.running(await gangs.next_on(job.nodes[0]))


@pytest.mark.parametrize("gang_peer", EXTERNAL, indirect=True)
async def test_gpus_of_tasks_are_lost_on_nodes_without_a_slurmd(gangs: Gangs) -> None:
    """Until slurmctld is restarted. They are not reported either, neither of the job nor of the
    node. When a release mends it, gangs with GPUs can be packed by Slurm on such nodes, too.
    """
    job = await _with_gpus_by_task(gangs)
    assert (await gangs.raw(job))["gres_detail"] == [None, None]
    first, _ = job.nodes
    node = await gangs.client.counted_node(first)
    assert node is not None
    assert node.gres_used == "gpu:h100:0"
    await gangs.end(job)
    other = await gangs.next_on(first)
    try:
        # It runs there without GPUs, so Slurm has seen that the first has ended.
        await gangs.end(await gangs.running(required_nodes=(first,), gres=None))
        assert (await gangs.client.job(other)).nodes == ()
    finally:
        await gangs.peer.restart()
    await gangs.jobs.running(other)


async def test_neighbours_are_chosen_for_a_contiguous_job(gangs: Gangs) -> None:
    """It waits where a busy node lies between the free ones."""
    await gangs.free(*gangs.peer.nodes)
    middle = gangs.peer.nodes[1]
    full = await gangs.fill(middle)
    job_id = await gangs.submit(nodes=2, contiguous=True)
    if len(gangs.peer.nodes) > 3:
        job = await gangs.jobs.running(job_id)
        assert job.nodes == gangs.peer.nodes[2:4]
        return
    await gangs.jobs.reasoned(job_id, {"Resources"})
    await gangs.end(full)
    job = await gangs.jobs.running(job_id)
    assert job.nodes == gangs.pair


async def test_segments_are_taken_by_a_cluster_without_blocks(gangs: Gangs) -> None:
    job = await gangs.gang(segment_size=2)
    assert job.nodes == gangs.pair
    if gangs.peer.major != "24.11":
        assert (await gangs.raw(job))["segment_size"] == 2


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
async def test_pending_job_keeps_the_tasks_of_each_node(
    gangs: Gangs, before: int, after: int
) -> None:
    await gangs.free(*gangs.pair)
    job_id = await gangs.submit(nodes=before, tasks_per_node=2, held=True)
    tasks = 2 * after
    await gangs.client.update_job(job_id, nodes=after, tasks=tasks, total_cpus=2 * tasks)
    await gangs.client.update_job(job_id, held=False)
    job = await gangs.jobs.running(job_id)
    assert [it[1:] for it in await gangs.layout(job)] == [(4, 1024)] * after
    assert (job.tasks, list(job.tasks_by_node.values())) == (tasks, [2] * after)


@pytest.mark.parametrize(("before", "after"), [(3, 6), (6, 3)])
async def test_pending_job_takes_another_number_of_packed_tasks(
    gangs: Gangs, before: int, after: int
) -> None:
    await gangs.free(*gangs.pair)
    job_id = await gangs.submit(nodes=None, tasks=before, cpus=8, memory_mib=800, held=True)
    await gangs.client.update_job(job_id, tasks=after, total_cpus=8 * after)
    await gangs.client.update_job(job_id, held=False)
    job = await gangs.jobs.running(job_id)
    (node,) = job.nodes
    assert await gangs.layout(job) == [(node, 8 * after, 800 * after)]
    assert job.tasks_by_node == {node: after}


async def _with_gpus_by_task(gangs: Gangs) -> Job:
    """A job of three tasks with half the GPUs of a node each."""
    await gangs.free(*gangs.pair)
    gpus = gangs.peer.gpus_per_node // 2
    return await gangs.running(nodes=None, tasks=3, memory_mib=200, gres=f"gres/gpu:{gpus}")
