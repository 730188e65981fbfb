"""Jobs of several nodes behave on the models as on the real servers."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from slurmapi import BaseState, Job, SlurmRefused
from tests.contract.conftest import is_over
from tests.contract.gangs import WITH_SCRIPTS, WITH_TIERS, Gangs
from tests.rigs.slurm_conf import HIGH_PARTITION

# It ignores what Slurm sends at a cancel, until SIGKILL after KillWait. From then on its children
# have the variable.
_HOLD: Final = "trap '' TERM INT USR1 CONT; export HOLDS=yes; while :; do sleep 1; done"
_HOLDS_ITS_NODE: Final = f"#!/bin/bash\n{_HOLD}\n"
_HOLDS_EACH_NODE: Final = f"""#!/bin/bash
trap '' TERM INT USR1 CONT
srun --overlap --ntasks-per-node=1 bash -c "{_HOLD}" &
{_HOLD}
"""


async def test_nodes_come_in_slurms_order_and_not_in_the_one_asked_for(gangs: Gangs) -> None:
    first, second = gangs.pair
    job = await gangs.gang(required_nodes=(second, first))
    assert job.nodes == (first, second)
    assert await gangs.layout(job) == [(first, 2, 512), (second, 2, 512)]


async def test_record_is_short_without_the_cores_of_each_node(gangs: Gangs) -> None:
    """They make it 19 KB longer for each node of 64 cores, and slow to write (26.05.5)."""
    job = await gangs.gang()
    whole, short = await gangs.raw(job), await gangs.raw(job, query="?flags=ALL")
    assert whole["job_resources"]
    assert len(whole["gres_detail"]) == 2
    assert not short["job_resources"]
    assert not short["gres_detail"]
    for field in ("job_state", "nodes", "node_count", "admin_comment", "tres_alloc_str"):
        assert short[field] == whole[field]


async def test_fewer_required_nodes_than_needed_are_joined_by_others(gangs: Gangs) -> None:
    last = gangs.peer.nodes[-1]
    await gangs.free(*gangs.peer.nodes)
    job = await gangs.running(nodes=2, required_nodes=(last,))
    assert len(job.nodes) == 2
    assert job.nodes[-1] == last


async def test_of_more_required_nodes_than_needed_some_are_taken(gangs: Gangs) -> None:
    """Usually the first ones, but not on a crowded machine: a slurmd may answer too late."""
    named = gangs.peer.nodes[:3]
    await gangs.free(*named)
    job = await gangs.running(nodes=len(named) - 1, required_nodes=named)
    assert len(job.nodes) == len(named) - 1
    assert set(job.nodes) < set(named)


@pytest.mark.parametrize("kibibytes", [8, 64, 256])
async def test_admin_comment_has_room_for_all_pods_of_a_gang(gangs: Gangs, kibibytes: int) -> None:
    text = json.dumps(["0" * 36] * (kibibytes * 1024 // 40))
    job_id = await gangs.submit(nodes=2, held=True, admin_comment=text)
    assert (await gangs.client.job(job_id)).admin_comment == text
    other = text.replace("0", "1")
    await gangs.client.update_job(job_id, admin_comment=other)
    assert (await gangs.client.job(job_id)).admin_comment == other


async def test_more_nodes_than_the_partition_has_wait_or_are_refused(gangs: Gangs) -> None:
    nodes = len(gangs.peer.nodes) + 1
    if gangs.peer.major == "24.11":
        assert await gangs.refused(nodes=nodes) == 2014
        job_id = await gangs.submit(nodes=nodes, held=True)
        await gangs.client.update_job(job_id, held=False)
        await gangs.jobs.reasoned(job_id, {"PartitionNodeLimit"})
    else:
        await gangs.waiting({"PartitionNodeLimit"}, nodes=nodes)


async def test_node_without_a_task_is_refused_or_has_no_cpu(gangs: Gangs) -> None:
    asked: dict[str, Any] = {"nodes": "2", "tasks": 1, "cpus_per_task": 2}
    if gangs.peer.major != "24.11":
        with pytest.raises(AssertionError, match="2025"):
            await gangs.shaped(**asked)
        return
    job = await gangs.shaped(**asked, memory_per_node={"set": True, "number": 512})
    assert [it[1:] for it in await gangs.layout(job)] == [(2, 512), (0, 512)]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
async def test_pending_job_takes_another_number_of_nodes(
    gangs: Gangs, before: int, after: int
) -> None:
    await gangs.free(*gangs.peer.nodes)
    job_id = await gangs.submit(nodes=before, held=True)
    await gangs.client.update_job(job_id, nodes=after, tasks=after, total_cpus=2 * after)
    record = await gangs.raw(job_id)
    assert (record["node_count"], record["tasks"]) == (after, after)
    await gangs.client.update_job(job_id, held=False)
    job = await gangs.jobs.running(job_id)
    assert [it[1:] for it in await gangs.layout(job)] == [(2, 512)] * after


async def test_each_node_has_room_for_its_tasks(gangs: Gangs) -> None:
    gpus = gangs.peer.gpus_per_node // 2
    job = await gangs.gang(tasks_per_node=2, gres=f"gres/gpu:{gpus}")
    first, second = gangs.pair
    assert await gangs.layout(job) == [(first, 4, 1024), (second, 4, 1024)]
    assert "cpu=8,mem=2G,node=2" in job.tres_allocated
    assert job.gres == gangs.all_gpus
    assert (job.tasks, job.cpus_per_task, job.tasks_per_node) == (4, 2, 2)
    assert list(job.tasks_by_node.items()) == [(first, 2), (second, 2)]
    await gangs.jobs.reasoned(await gangs.next_on(second), {"Resources", "Priority"})


@pytest.mark.parametrize(
    ("asked", "cpus"),
    [
        ({"nodes": "2", "tasks": 3, "cpus_per_task": 2}, [4, 2]),
        ({"nodes": "2", "tasks": 4, "cpus_per_task": 2}, [6, 2]),
        ({"nodes": None, "tasks": 4, "cpus_per_task": 2, "tasks_per_node": 2}, [4, 4]),
        ({"nodes": None, "tasks": 6, "cpus_per_task": 8}, [48]),
        ({"nodes": None, "tasks": 10, "cpus_per_task": 12}, [60, 60]),
        ({"nodes": None, "tasks": 4, "cpus_per_task": 2, "memory_per_cpu": 100_000}, [4, 4]),
    ],
    ids=str,
)
async def test_tasks_that_slurm_deals_out(
    gangs: Gangs, asked: dict[str, Any], cpus: list[int]
) -> None:
    """Only with one number of tasks for each node, or without nodes, are they spread evenly."""
    per_cpu = asked.get("memory_per_cpu", 1000)
    memory = {"memory_per_cpu": {"set": True, "number": per_cpu}}
    job = await gangs.shaped(**asked | memory)
    assert [it[1:] for it in await gangs.layout(job)] == [(n, n * per_cpu) for n in cpus]


async def test_node_whose_tasks_are_fewer_gets_as_much_on_the_newer_release(gangs: Gangs) -> None:
    asked: dict[str, Any] = {"tasks": 3, "cpus_per_task": 2, "tasks_per_node": 2}
    job = await gangs.shaped(nodes="2", memory_per_cpu={"set": True, "number": 100}, **asked)
    cpus = [4, 2] if gangs.peer.major == "24.11" else [4, 4]
    assert [it[1:] for it in await gangs.layout(job)] == [(n, n * 100) for n in cpus]


async def test_more_tasks_than_the_nodes_may_have_are_refused(gangs: Gangs) -> None:
    with pytest.raises(AssertionError, match="2014"):
        await gangs.shaped(nodes="2", tasks=5, tasks_per_node=2)


async def test_twin_of_another_size_waits_as_any_other(gangs: Gangs) -> None:
    name = f"sizes-{id(gangs)}"
    first = await gangs.running(name=name)
    twin = await gangs.waiting({"Dependency"}, name=name, nodes=2)
    await gangs.end(first)
    twin = await gangs.jobs.running(twin.job_id)
    assert len(twin.nodes) == 2


async def test_job_ends_on_all_nodes_when_one_fails(gangs: Gangs) -> None:
    first, second = gangs.pair
    job = await gangs.gang()
    await gangs.lose(second)
    ended = await gangs.jobs.until(job.job_id, is_over)
    assert (ended.state.base, ended.nodes) == (BaseState.NODE_FAIL, (first, second))
    await gangs.jobs.running(await gangs.next_on(first))


@pytest.mark.parametrize("lost", [0, 1])
async def test_job_that_may_lose_nodes_goes_on_with_the_others(gangs: Gangs, lost: int) -> None:
    """On 24.11 the end of a job's script, on the first node, is the end of the job."""
    job = await gangs.gang(kill_on_node_fail=False)
    gone, kept = gangs.pair[lost], gangs.pair[1 - lost]
    if lost == 0 and gangs.peer.major == "24.11":
        over = await gangs.lose(gone, ends=job)
        assert over is not None
        assert (over.state.base, over.state_reason) == (BaseState.FAILED, "RaisedSignal")
        assert over.nodes == (kept,)
        return
    await gangs.lose(gone)
    job = await gangs.on(job, kept)
    assert await gangs.layout(job) == [(kept, 2, 512)]
    await gangs.jobs.running(await gangs.next_on(gone))
    await gangs.end(job)


@pytest.mark.parametrize("kept", [0, 1])
async def test_running_job_gives_nodes_back(gangs: Gangs, kept: int) -> None:
    """It keeps the node of its script, and its number of tasks."""
    stays, leaves = gangs.pair[kept], gangs.pair[1 - kept]
    job = await gangs.gang()
    if not gangs.peer.external and kept != 0:
        assert await _refused(gangs, job, required_nodes=(stays,)) == 2018
        return
    await gangs.client.update_job(job.job_id, required_nodes=(stays,))
    job = await gangs.client.job(job.job_id)
    assert (job.nodes, job.state.base) == ((stays,), BaseState.RUNNING)
    assert await gangs.layout(job) == [(stays, 2, 512)]
    assert (await gangs.raw(job))["tasks"] == 2
    await gangs.jobs.running(await gangs.next_on(leaves))


async def test_running_job_gives_a_node_back_and_takes_a_comment_in_one_update(
    gangs: Gangs,
) -> None:
    """So the owner tag says at no time which nodes the job has given back before it has."""
    stays, _ = gangs.pair
    job = await gangs.gang()
    await gangs.client.update_job(job.job_id, required_nodes=(stays,), admin_comment="noted")
    job = await gangs.client.job(job.job_id)
    assert (job.nodes, job.admin_comment) == ((stays,), "noted")


async def test_running_job_gets_no_nodes(gangs: Gangs) -> None:
    job = await gangs.gang()
    for names in ((), ("nowhere",), (*gangs.pair, gangs.peer.nodes[-1]))[: len(gangs.peer.nodes)]:
        assert await _refused(gangs, job, required_nodes=names) == 2018
    assert await _refused(gangs, job, nodes=3, tasks=3, total_cpus=6) == 2073
    kept, left = ((name,) for name in gangs.pair)
    assert await _refused(gangs, job, required_nodes=kept, excluded_nodes=left) == 2073
    assert (await gangs.client.job(job.job_id)).nodes == gangs.pair


async def test_number_of_nodes_takes_none_from_a_job_that_names_the_tasks_of_each(
    gangs: Gangs,
) -> None:
    """Of any other job it does, unless there is another number of tasks beside it."""
    job = await gangs.gang()
    assert await _refused(gangs, job, nodes=1, tasks=1, total_cpus=2) == 2073
    with pytest.raises(AssertionError, match="2073"):
        await gangs.operator.update(job.job_id, nodes="1")
    assert (await gangs.client.job(job.job_id)).nodes == gangs.pair
    await gangs.end(job)
    job = await gangs.shaped(nodes="2", tasks=2, memory_per_node={"set": True, "number": 100})
    await gangs.operator.update(job.job_id, nodes="1")
    job = await gangs.on(job, job.nodes[0])
    assert job.tasks == 1


@pytest.mark.parametrize("gang_peer", WITH_TIERS, indirect=True)
async def test_job_of_a_higher_tier_ends_the_whole_job_for_one_node(gangs: Gangs) -> None:
    _, second = gangs.pair
    job = await gangs.gang()
    await gangs.running(partition=HIGH_PARTITION, required_nodes=(second,), gres=gangs.all_gpus)
    ended = await gangs.jobs.until(job.job_id, is_over)
    assert (ended.state.base, ended.nodes) == (BaseState.PREEMPTED, gangs.pair)


@pytest.mark.slow
@pytest.mark.parametrize("gang_peer", WITH_SCRIPTS, indirect=True)
@pytest.mark.parametrize(
    ("script", "held"),
    [(_HOLDS_ITS_NODE, 1), (_HOLDS_EACH_NODE, 2)],
    ids=["script", "script-with-steps"],
)
async def test_cancelled_job_holds_the_nodes_where_its_processes_are(
    gangs: Gangs, script: str, held: int
) -> None:
    """Until KillWait has run out; its other nodes are free at once."""
    job = await gangs.gang(script=script)
    for node in gangs.pair[:held]:
        await gangs.holds(job, node)
    following = [await gangs.next_on(node) for node in gangs.pair]
    assert await gangs.client.cancel([job.job_id]) == {}
    for job_id in following[held:]:
        await gangs.jobs.running(job_id)
    states = await gangs.client.job_states([job.job_id, *following])
    assert states[job.job_id].completing
    assert {states[job_id].base for job_id in following[:held]} == {BaseState.PENDING}
    for job_id in following:
        await gangs.jobs.running(job_id)


async def _refused(gangs: Gangs, job: Job, **changes: Any) -> int:
    with pytest.raises(SlurmRefused) as refusal:
        await gangs.client.update_job(job.job_id, **changes)
    return refusal.value.error_number
