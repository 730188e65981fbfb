"""The pods of a batch Job end one after the other, and their nodes are free with them."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from scheduler.core.intervals import SLOW_LOOK_SECONDS
from scheduler.core.owner_tag import read_tag
from scheduler.kube.wire import PodStatus
from slurmapi import BaseState, SlurmUnreachable
from tests.unit.service.test_gangs import job, job_started, of_job
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
NODES: Final = ("n1", "n2")
MORE_NODES: Final = ("n3", "n4")
UIDS: Final = ("uid-0", "uid-1", "uid-2", "uid-3")


async def test_node_is_free_when_its_pod_has_succeeded(slurm, kube, service):
    job_id = await job_started(slurm, kube, service)
    kube.end_containers("uid-0")
    await asyncio.sleep(3)
    assert slurm.jobs[job_id].nodes == ("n2",)
    tag = read_tag(slurm.jobs[job_id].admin_comment)
    assert tag is not None
    assert (tag.ranks, tag.at) == ((0, 1), NODES)
    assert service.acted("give_back", "ok") == 1
    await asyncio.sleep(60)
    assert (slurm.live(job_id), kube.deleted) == (True, [])
    assert service.acted("give_back", "ok") == 1
    kube.end_containers("uid-1")
    await asyncio.sleep(5)
    assert not slurm.live(job_id)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.02, 3.0])
async def test_next_process_gives_the_pod_that_fails_later_its_own_node(slurm, kube, seconds):
    """Whenever the former one died."""
    first = Service(slurm, kube)
    job_id = await job_started(slurm, kube, first)
    kube.end_containers("uid-0")
    await asyncio.sleep(seconds)
    await first.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(5)
    assert slurm.jobs[job_id].nodes == ("n2",)
    kube.report("uid-1", PodStatus(phase="Failed"))
    of_job(kube, 1, uid="anew")
    await asyncio.sleep(10)
    assert dict(kube.bindings)["anew"] == "n2"
    assert slurm.calls["submit"] == 1
    second.unharmed()
    await second.kill()


async def test_slurm_that_refuses_is_asked_rarely(slurm, kube, service):
    job_id = await job_started(slurm, kube, service)
    slurm.refuses.add("required_nodes")
    kube.end_containers("uid-0")
    await asyncio.sleep(50)
    assert (service.acted("give_back", "refused"), slurm.jobs[job_id].nodes) == (1, NODES)
    await asyncio.sleep(3600)
    assert service.acted("give_back", "refused") < 8
    assert slurm.live(job_id)


async def test_slurm_that_is_away_is_asked_again(slurm, kube, service):
    job_id = await job_started(slurm, kube, service)
    slurm.fail["update"].append(SlurmUnreachable("away"))
    kube.end_containers("uid-0")
    await asyncio.sleep(20)
    assert slurm.jobs[job_id].nodes == ("n2",)


async def test_pod_that_failed_keeps_its_node(slurm, kube, service):
    job_id = await job_started(slurm, kube, service)
    kube.report("uid-0", PodStatus(phase="Failed"))
    await asyncio.sleep(30)
    assert slurm.jobs[job_id].nodes == NODES
    of_job(kube, 0, uid="anew")
    await asyncio.sleep(5)
    assert dict(kube.bindings)["anew"] == "n1"


@pytest.mark.parametrize("restarts", [False, True])
async def test_node_of_a_pod_that_a_smaller_batch_job_does_not_have_any_more_is_free(
    slurm, kube, restarts
):
    slurm.add_node("n3")
    kube.set_node("n3")
    service = Service(slurm, kube)
    kube.groups["train"] = job(3, 3)
    service.start()
    for rank in range(3):
        of_job(kube, rank)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    slurm.change(job_id, BaseState.RUNNING, nodes=(*NODES, "n3"), start_time=1)
    await asyncio.sleep(5)
    kube.delete("uid-2")
    await asyncio.sleep(SLOW_LOOK_SECONDS + 10)
    assert len(slurm.jobs[job_id].nodes) == 3  # its containers still run
    kube.end_containers("uid-2")
    await asyncio.sleep(2 * SLOW_LOOK_SECONDS)
    assert len(slurm.jobs[job_id].nodes) == 3  # another is expected
    kube.groups["train"] = job(2, 2)
    if restarts:
        await service.kill()
        kube.relist()
        service = Service(slurm, kube)
        service.start()
    before = kube.asked["get_group"]
    await asyncio.sleep(2 * SLOW_LOOK_SECONDS)
    assert slurm.jobs[job_id].nodes == NODES
    await asyncio.sleep(10 * SLOW_LOOK_SECONDS)
    assert (slurm.live(job_id), kube.deleted) == (True, [])
    assert kube.asked["get_group"] - before <= 13
    service.unharmed()
    await service.kill()


async def started_in_two_sizes(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """A batch Job of four pods: a small one on n1, and three that have a node each."""
    for node in MORE_NODES:
        slurm.add_node(node)
        kube.set_node(node)
    kube.groups["train"] = job(completions=4, parallelism=4)
    service.start()
    for rank in range(4):
        of_job(kube, rank, cpu="8" if rank else "1")
    await asyncio.sleep(2)
    (job_id,) = slurm.components
    slurm.start_parts(job_id, ("n1",), ("n2", *MORE_NODES))
    await asyncio.sleep(5)
    assert dict(kube.bindings) == dict(zip(UIDS, (*NODES, *MORE_NODES), strict=True))
    return job_id


async def test_each_component_gives_back_all_nodes_but_one(slurm, kube, service):
    job_id = await started_in_two_sizes(slurm, kube, service)
    for rank in (0, 2):
        kube.end_containers(f"uid-{rank}")
    await asyncio.sleep(10)
    assert slurm.jobs[job_id].nodes == ("n1", "n2", "n4")
    kube.end_containers("uid-1")
    await asyncio.sleep(10)
    assert [part.nodes for part in slurm.jobs[job_id].parts] == [("n1",), ("n4",)]
    tag = read_tag(slurm.jobs[job_id].admin_comment)
    assert tag is not None
    assert tag.at == (*NODES, *MORE_NODES)
    await asyncio.sleep(60)
    assert (slurm.live(job_id), kube.deleted) == (True, [])
    kube.end_containers("uid-3")
    await asyncio.sleep(5)
    assert not slurm.live(job_id)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.02, 0.03, 3.0])
async def test_next_process_knows_the_slots_of_a_component_that_is_smaller(slurm, kube, seconds):
    """Whenever the former one died."""
    first = Service(slurm, kube)
    job_id = await started_in_two_sizes(slurm, kube, first)
    kube.end_containers("uid-1")
    await asyncio.sleep(seconds)
    await first.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(5)
    assert slurm.jobs[job_id].nodes == ("n1", "n3", "n4")
    kube.report("uid-2", PodStatus(phase="Failed"))
    of_job(kube, 2, uid="anew", cpu="8")
    await asyncio.sleep(10)
    assert dict(kube.bindings)["anew"] == "n3"
    assert slurm.calls["submit"] == 1
    second.unharmed()
    await second.kill()
