"""slurmctld has lost its state without one failed poll, and gives our ids to jobs of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from slurmapi import BaseState, Job, JobState, SlurmInterrupted
from tests.unit.service.test_edited_pods import annotated
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm
from tests.unit.service.twenty_pods import PODS, fill

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"


def lose_state(slurm: TinySlurm, *, state: BaseState) -> dict[int, Job]:
    """At once, between two polls; the jobs of others that got the ids, as they are."""
    count = len(slurm.jobs)
    slurm.jobs.clear()
    slurm.submissions.clear()
    slurm.next_id = 1
    for _ in range(count):
        slurm.add(name="native", state=JobState(state), nodes=("n1",), comment="its owner's")
    return dict(slurm.jobs)


def untouched(slurm: TinySlurm, natives: dict[int, Job]) -> None:
    for job_id, job in natives.items():
        assert slurm.jobs[job_id] == job


async def waiting(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """One pod and its pending job, both well known."""
    service.start()
    kube.create(UID)
    await asyncio.sleep(15)
    (job_id,) = slurm.jobs
    return job_id


def delete(kube: TinyKube) -> None:
    for uid in PODS:
        kube.delete(uid)
        kube.end_containers(uid)


def finish(kube: TinyKube) -> None:
    for uid in PODS:
        kube.end_containers(uid)


@pytest.mark.parametrize("end", [delete, finish])
async def test_pods_that_end_then_end_no_job_of_others(
    slurm, kube, service, end: Callable[[TinyKube], None]
):
    await fill(slurm, kube, service)
    await asyncio.sleep(30)
    natives = lose_state(slurm, state=BaseState.RUNNING)
    end(kube)
    await asyncio.sleep(60)
    untouched(slurm, natives)
    assert len(service.units) == 0


async def test_pod_that_is_edited_then_changes_no_job_of_others(slurm, kube, service):
    await waiting(slurm, kube, service)
    natives = lose_state(slurm, state=BaseState.PENDING)
    kube.edit(UID, annotated(comment="edited"))
    await asyncio.sleep(60)
    untouched(slurm, natives)


async def test_pod_that_is_deleted_while_it_waits_then_ends_no_job_of_others(slurm, kube, service):
    await waiting(slurm, kube, service)
    natives = lose_state(slurm, state=BaseState.PENDING)
    kube.delete(UID)
    await asyncio.sleep(60)
    untouched(slurm, natives)


async def test_requeues_are_noted_on_no_job_of_others(slurm, kube, service):
    job_id = await waiting(slurm, kube, service)
    slurm.requeue(job_id)
    slurm.start(job_id)
    natives: dict[int, Job] = {}
    read = slurm.job

    async def job(job_id: int) -> Job:
        """The state is lost right after the look that the bind rests on."""
        record: Job = await read(job_id)
        if not natives and record.state.base is BaseState.RUNNING:
            natives.update(lose_state(slurm, state=BaseState.RUNNING))
        return record

    slurm.job = job
    await asyncio.sleep(60)
    assert natives
    untouched(slurm, natives)


async def test_pods_that_end_at_once_cost_one_look_each(slurm, kube, service):
    """The one that says whose job it is serves the farewell, too."""
    await fill(slurm, kube, service)
    await asyncio.sleep(30)
    before = slurm.calls.copy()
    finish(kube)
    await asyncio.sleep(1)
    assert not [job_id for job_id in slurm.jobs if slurm.live(job_id)]
    calls = slurm.calls - before
    assert calls["job"] <= len(PODS) + 2 * 5  # and those looks that come by themselves
    assert calls["update"] == len(PODS)
    assert calls["cancel"] <= len(PODS) / 2


@pytest.mark.parametrize("edit", [{"comment": "edited"}, {"priority": "7"}])
async def test_edit_whose_updates_take_long_reads_the_tag_before_each(slurm, kube, service, edit):
    """Each single update may take seconds; the state is lost while the first one is on its way."""
    await waiting(slurm, kube, service)
    natives: dict[int, Job] = {}
    update = slurm.update_job

    async def slow(job_id: int, **more: object) -> None:
        await update(job_id, **more)
        await asyncio.sleep(3)
        if not natives:
            natives.update(lose_state(slurm, state=BaseState.PENDING))

    slurm.update_job = slow
    kube.edit(UID, annotated(**edit))
    await asyncio.sleep(60)
    assert natives
    untouched(slurm, natives)


async def test_cancel_that_waits_for_a_connection_is_not_sent_by_an_old_tag(slurm, kube, service):
    await waiting(slurm, kube, service)
    natives: dict[int, Job] = {}

    def lose() -> None:
        natives.update(lose_state(slurm, state=BaseState.PENDING))

    slurm.waits["cancel"] = 20.0
    kube.delete(UID)
    asyncio.get_running_loop().call_later(10, lose)
    await asyncio.sleep(120)
    untouched(slurm, natives)
    assert len(service.units) == 0


async def test_cancel_that_failed_is_repeated_after_another_look(slurm, kube, service):
    job_id = await waiting(slurm, kube, service)
    slurm.fail["cancel"].extend([SlurmInterrupted("the answer was lost")] * 3)
    slurm.asked.clear()
    kube.delete(UID)
    await asyncio.sleep(30)
    assert not slurm.live(job_id)
    about = [operation for operation, _ in slurm.asked if operation in {"job", "cancel"}]
    cancels = [at for at, operation in enumerate(about) if operation == "cancel"]
    assert len(cancels) == 4
    assert all(about[at - 1] == "job" for at in cancels)


async def test_slow_farewell_leaves_its_job_time_to_be_cancelled(slurm, kube, service):
    job_id = await waiting(slurm, kube, service)
    slurm.start(job_id)
    await asyncio.sleep(5)
    slurm.seconds["update"] = 60.0
    kube.end_containers(UID)
    await asyncio.sleep(5)
    assert not slurm.live(job_id)
