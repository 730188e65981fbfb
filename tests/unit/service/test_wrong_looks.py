"""Answers of Slurm that are wrong for a moment, or that it has forgotten: no healthy pod pays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from annotations import PREFIX
from scheduler.config.settings import Settings
from scheduler.core.doubt import ENOUGH
from scheduler.core.mapping_strategies import Strategy
from scheduler.kube.wire import PodStatus
from slurmapi import BaseState, Job, SlurmNoSuchJob, SlurmUnreadable
from slurmapi.components import joint_job
from tests.unit.service import test_shapes_in_service as shapes
from tests.unit.service.test_gangs import job, of_job, started
from tests.unit.service.test_hard_luck import again
from tests.unit.service.test_mapping_slips import label
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "uid-0"


def answer_wrongly(
    slurm: TinySlurm, job_id: int, wrong: Callable[[Job], Job], *, times: int = 1
) -> list[Job]:
    """The next looks at this job show it as `wrong` says; gives those answers as they are made."""
    made = list[Job]()

    def shown(found: Job) -> Job:
        if found.job_id != job_id or len(made) == times:
            return found
        made.append(wrong(found))
        return made[-1]

    slurm.shows = shown
    return made


def deny(slurm: TinySlurm, job_id: int, *, seconds: float) -> None:
    """From the next look on, Slurm says that it knows no such job, though its list shows it."""
    loop = asyncio.get_running_loop()
    until = list[float]()

    def shown(found: Job) -> Job:
        if found.job_id == job_id:
            until.append(loop.time() + seconds)
            if loop.time() < until[0]:
                raise SlurmNoSuchJob("Invalid job id specified", error_number=2017, status=404)
        return found

    slurm.shows = shown


def without_nodes(found: Job) -> Job:
    return replace(found, nodes=())


def without_a_component(found: Job) -> Job:
    first = found.parts[:1]
    return replace(joint_job(first), parts=first, answered_at=found.answered_at)


@pytest.mark.parametrize("times", [1, ENOUGH - 1])
async def test_gang_lives_on_after_a_look_without_nodes(slurm, kube, service, times):
    job_id = await started(slurm, kube, service)
    await asyncio.sleep(30)
    made = answer_wrongly(slurm, job_id, without_nodes, times=times)
    await asyncio.sleep(60)
    assert len(made) == times
    assert (kube.deleted, slurm.live(job_id)) == ([], True)


async def test_gang_ends_if_looks_go_on_to_show_no_nodes(slurm, kube, service):
    """An administrator has taken all nodes from the job."""
    job_id = await started(slurm, kube, service)
    await asyncio.sleep(30)
    slurm.change(job_id, BaseState.RUNNING, nodes=(), start_time=1)
    await asyncio.sleep(60)
    assert sorted(kube.deleted) == ["uid-0", "uid-1"]


async def test_pod_keeps_its_job_though_the_first_look_of_the_next_process_shows_no_nodes(
    slurm, kube
):
    first = Service(slurm, kube)
    first.start()
    job_id = await first.bound(UID)
    made = answer_wrongly(slurm, job_id, without_nodes)
    second = await again(first, slurm, kube)
    await asyncio.sleep(60)
    assert len(made) == 1
    assert (kube.deleted, slurm.live(job_id), slurm.calls["submit"]) == ([], True, 1)
    await second.kill()


@pytest.mark.parametrize("restarts", [False, True])
async def test_gang_lives_on_after_a_look_without_one_component(slurm, kube, restarts):
    service = Service(slurm, kube)
    await shapes.started(slurm, kube, service)
    made = answer_wrongly(slurm, 1, without_a_component)
    if restarts:
        service = await again(service, slurm, kube)
    await asyncio.sleep(60)
    assert len(made) == 1
    assert (kube.deleted, slurm.live(1)) == ([], True)
    await service.kill()


@pytest.mark.parametrize("seconds", [1.0, 8.0])
@pytest.mark.parametrize("restarts", [False, True])
async def test_pod_lives_on_though_looks_find_no_job_that_the_list_shows(
    slurm, kube, restarts, seconds
):
    """No job of others has taken the node: what holds it is the pod's own job."""
    service = Service(slurm, kube)
    service.start()
    job_id = await service.bound(UID)
    slurm.allocated["n1"] = slurm.CPUS
    deny(slurm, job_id, seconds=seconds)
    if restarts:
        service = await again(service, slurm, kube)
    for _ in range(600):
        for it in [it for it in slurm.jobs if it != job_id and slurm.live(it)]:
            slurm.change(it, BaseState.PENDING, state_reason="Dependency")  # a singleton
        await asyncio.sleep(0.2)
    assert kube.deleted == []
    assert [it for it in slurm.jobs if slurm.live(it)] == [job_id]
    await service.kill()


async def test_packed_gang_keeps_its_nodes_while_slurm_does_not_count_its_pods(slurm, kube):
    """It has given one node back, and the next process cannot read how many pods each has."""
    slurm.add_node("n3")
    kube.set_node("n3")
    first = Service(slurm, kube)
    kube.groups["train"] = job(parallelism=4, completions=4)
    first.start()
    for rank in range(4):
        of_job(kube, rank, cpu="8", annotations={f"{PREFIX}pods-per-node": "1000"})
    await asyncio.sleep(5)
    slurm.pack(1, n1=2, n2=1, n3=1)
    await asyncio.sleep(5)
    kube.end_containers(next(uid for uid, node in kube.bindings if node == "n3"))
    await asyncio.sleep(15)
    assert slurm.jobs[1].nodes == ("n1", "n2")
    slurm.fail["laid_out"].extend(SlurmUnreadable("the answer is too large") for _ in range(1000))
    second = await again(first, slurm, kube)
    await asyncio.sleep(400)
    assert (kube.deleted, slurm.jobs[1].nodes, slurm.live(1)) == ([], ("n1", "n2"), True)
    await second.kill()


async def test_pod_whose_job_was_requeued_before_its_bind_outlives_a_crash_of_slurmctld(
    slurm, kube, service
):
    """The crash forgets that the job was started, and what was written into its tag since."""
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    (job_id,) = slurm.jobs
    kube.set_node("n1", ready=False)
    slurm.start(job_id, node="n1")
    await asyncio.sleep(3)
    slurm.requeue(job_id)
    await asyncio.sleep(3)
    saved = slurm.jobs[job_id]
    kube.set_node("n1", ready=True)
    slurm.start(job_id, node="n1")
    await asyncio.sleep(10)
    assert kube.bindings == [(UID, "n1")]
    slurm.jobs[job_id] = saved
    slurm.boot_time = slurm.now()
    await asyncio.sleep(120)
    assert kube.deleted == []
    (pinned,) = [it for it in slurm.jobs if slurm.live(it)]
    assert slurm.submissions[pinned].required_nodes == ("n1",)


@pytest.mark.parametrize("moved", [False, True])
async def test_mapping_that_changes_with_the_process_costs_no_job(slurm, kube, monkeypatch, moved):
    """The kubelet has started the pod after the job's present run began, unless the job has moved
    to another node since.
    """
    strategies = (Strategy.parse("label:slurm"),)
    monkeypatch.setattr(Settings, "strategies", property(lambda _self: strategies))
    label(kube, n1="n1", n2="n2")
    first = Service(slurm, kube)
    first.start()
    job_id = await first.bound(UID)
    began = datetime.fromtimestamp(slurm.now(), UTC)
    kube.report(UID, PodStatus(phase="Running", start_time=began))
    await asyncio.sleep(20)
    if moved:
        slurm.change(job_id, BaseState.RUNNING, nodes=("n2",), start_time=slurm.now())
    else:
        start = slurm.now() - 60
        slurm.change(job_id, BaseState.RUNNING, nodes=("n1",), start_time=start)
        label(kube, n1="n2", n2="n1")
    second = await again(first, slurm, kube)
    await asyncio.sleep(100)
    assert kube.deleted == []
    assert (slurm.live(job_id), slurm.calls["submit"]) == (not moved, 1 + moved)
    await second.kill()
