"""A plugin of the site sets the admin_comment of all jobs, where our owner tag stands."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.naming import JOB_ID
from scheduler.kube.errors import KubeUnreachable
from slurmapi import BaseState, SlurmUnreachable
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
HOUR = 3600.0


def plugin(_admin_comment: str) -> str:
    return "billed to physics"


def live(slurm: TinySlurm) -> list[int]:
    return [job_id for job_id in slurm.jobs if slurm.live(job_id)]


async def waits(slurm: TinySlurm, kube: TinyKube, service: Service, *, seconds: float) -> None:
    slurm.tagging = plugin
    service.start()
    kube.create(UID)
    await asyncio.sleep(seconds)


async def test_jobs_without_a_tag_are_few_and_ended_and_the_pod_says_why(slurm, kube, service):
    await waits(slurm, kube, service, seconds=5)
    condition = kube.condition_of(UID)
    assert condition.reason == "SlurmRejected"
    assert "job_submit plugin" in condition.message
    assert "SlurmRejected" in service.recorder.reasons(UID)
    await asyncio.sleep(HOUR)
    assert slurm.calls["submit"] <= 7
    assert live(slurm) == []
    assert kube.condition_of(UID).reason == "SlurmRejected"
    kube.delete(UID)
    await asyncio.sleep(60)
    assert live(slurm) == []


@pytest.mark.parametrize("ahead", [-3600, 3600])
async def test_clocks_that_are_an_hour_apart_hide_no_job_without_a_tag(slurm, kube, service, ahead):
    slurm.ahead = ahead
    await waits(slurm, kube, service, seconds=2 * HOUR)
    assert live(slurm) == []
    assert slurm.calls["submit"] <= 9
    assert kube.condition_of(UID).reason == "SlurmRejected"
    assert "job_submit plugin" in kube.condition_of(UID).message


async def test_outage_before_the_first_look_hides_no_job_without_a_tag(slurm, kube, service):
    await waits(slurm, kube, service, seconds=0.1)
    for operation in ("states", "job", "ping"):
        slurm.fail[operation].extend([SlurmUnreachable("away")] * 5)
    await asyncio.sleep(HOUR)
    assert live(slurm) == []
    assert kube.condition_of(UID).reason == "SlurmRejected"


async def test_job_of_others_that_came_before_the_first_look_is_not_taken_for_it(
    slurm, kube, service
):
    """Its name is the same, so that only the time of its submit tells it from ours."""
    await waits(slurm, kube, service, seconds=0.1)
    (ours,) = slurm.jobs.values()
    for operation in ("states", "job", "ping"):
        slurm.fail[operation].extend([SlurmUnreachable("away")] * 1000)
    await asyncio.sleep(5)
    slurm.jobs.clear()
    slurm.next_id = ours.job_id
    native = slurm.add(name=ours.name, submit_time=slurm.now())
    slurm.fail.clear()
    kube.delete(UID)
    await asyncio.sleep(60)
    assert live(slurm) == [native]


async def test_pod_gets_its_job_once_the_plugin_is_mended(slurm, kube, service):
    await waits(slurm, kube, service, seconds=100)
    slurm.tagging = lambda admin_comment: admin_comment
    await asyncio.sleep(200)
    (job_id,) = live(slurm)
    slurm.start(job_id)
    await asyncio.sleep(5)
    assert kube.bindings == [(UID, "n1")]


async def test_pod_that_goes_before_the_first_look_leaves_no_job(slurm, kube, service):
    await waits(slurm, kube, service, seconds=0.1)
    assert len(live(slurm)) == 1
    kube.delete(UID)
    await asyncio.sleep(10)
    assert live(slurm) == []
    assert len(service.units) == 0


async def runs(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """A pod runs on a job whose tag somebody changes then."""
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    (job_id,) = live(slurm)
    slurm.start(job_id)
    await asyncio.sleep(5)
    assert kube.runs(UID)
    slurm.change(job_id, BaseState.RUNNING, admin_comment="an operator's")
    return job_id


async def test_job_that_a_pod_runs_on_is_kept_until_it_has_ended(slurm, kube, service):
    job_id = await runs(slurm, kube, service)
    await asyncio.sleep(HOUR)
    assert live(slurm) == [job_id]
    assert kube.deleted == []
    assert service.recorder.reasons(UID).count("PlaceholderLost") == 1
    kube.end_containers(UID)
    await asyncio.sleep(30)
    assert live(slurm) == []


async def test_pod_that_a_list_lacks_keeps_its_job_without_a_tag(slurm, kube, service):
    job_id = await runs(slurm, kube, service)
    await asyncio.sleep(15)
    kube.lose(UID)
    await asyncio.sleep(60)
    assert live(slurm) == [job_id]


async def test_pod_that_was_deleted_by_force_keeps_its_job_without_a_tag_for_its_grace(
    slurm, kube, service
):
    job_id = await runs(slurm, kube, service)
    await asyncio.sleep(15)
    kube.force_delete(UID)
    await asyncio.sleep(20)
    assert live(slurm) == [job_id]
    await asyncio.sleep(60)
    assert live(slurm) == []


async def test_pod_whose_binding_got_no_answer_keeps_its_job_without_a_tag(slurm, kube, service):
    def bound(_uid: str, _node: str) -> None:
        slurm.change(1, BaseState.RUNNING, admin_comment="an operator's")

    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    kube.lag, kube.lose_next_binding, kube.on_bind = 30.0, True, bound
    kube.fail["get"].extend([KubeUnreachable("away")] * 8)  # until the record is looked at again
    slurm.start(1)
    await asyncio.sleep(HOUR)
    assert kube.runs(UID)
    assert live(slurm) == [1]


@pytest.mark.parametrize("other", ["name", "submit time"])
async def test_job_of_others_that_got_the_id_is_not_taken_for_it(slurm, kube, service, other):
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    (job_id,) = live(slurm)
    name = slurm.jobs[job_id].name
    slurm.jobs.clear()
    slurm.next_id = job_id
    native = slurm.add(
        name="native" if other == "name" else name,
        submit_time=slurm.now(),
    )
    assert native == job_id
    await asyncio.sleep(60)
    kube.delete(UID)
    await asyncio.sleep(60)
    assert live(slurm) == [native]


async def test_job_whose_tag_is_put_back_in_time_is_kept_and_used(slurm, kube, service):
    """Between the look that found none and the one right before it is ended."""
    wanted, answer = [], slurm.job

    def taken(admin_comment: str) -> str:
        wanted.append(admin_comment)
        return plugin(admin_comment)

    async def job(job_id):
        if slurm.calls["job"] == 1:
            slurm.change(job_id, BaseState.RUNNING, admin_comment=wanted[0], nodes=("n1",))
        return await answer(job_id)

    slurm.tagging, slurm.job = taken, job
    service.start()
    kube.create(UID)
    await asyncio.sleep(30)
    assert kube.bindings == [(UID, "n1")]
    assert slurm.calls["cancel"] == 0


async def restarted(slurm: TinySlurm, kube: TinyKube, service: Service) -> Service:
    """Another process follows this one."""
    await service.kill()
    kube.relist()
    successor = Service(slurm, kube)
    successor.start()
    await asyncio.sleep(60)
    return successor


def overwrite(slurm: TinySlurm, job_id: int) -> None:
    """An operator's `scontrol update`. What the node's record counts, the job itself holds."""
    slurm.change(job_id, BaseState.RUNNING, admin_comment="an operator's")
    slurm.allocated["n1"] = TinySlurm.CPUS


async def bound(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    (job_id,) = live(slurm)
    slurm.start(job_id)
    await asyncio.sleep(5)
    assert kube.bindings == [(UID, "n1")]
    return job_id


async def test_job_of_a_former_process_is_known_without_its_tag_and_ends_with_the_pod(slurm, kube):
    service = Service(slurm, kube)
    job_id = await bound(slurm, kube, service)
    service = await restarted(slurm, kube, service)
    overwrite(slurm, job_id)
    await asyncio.sleep(HOUR)
    assert kube.deleted == []
    assert live(slurm) == [job_id]
    assert service.recorder.reasons(UID).count("PlaceholderLost") == 1
    kube.end_containers(UID)
    await asyncio.sleep(30)
    assert live(slurm) == []
    service.unharmed()
    await service.kill()


async def test_job_that_a_census_found_is_known_without_its_tag(slurm, kube):
    """Its id was never written on the pod before."""
    service = Service(slurm, kube)
    job_id = await bound(slurm, kube, service)
    await service.kill()
    kube.edit(UID, {JOB_ID: None})
    service = await restarted(slurm, kube, service)
    assert service.job_of(UID) == job_id
    overwrite(slurm, job_id)
    await asyncio.sleep(HOUR)
    assert kube.deleted == []
    assert live(slurm) == [job_id]
    await service.kill()


async def test_pod_is_kept_though_its_job_lost_its_tag_before_a_restart(slurm, kube):
    service = Service(slurm, kube)
    job_id = await bound(slurm, kube, service)
    overwrite(slurm, job_id)
    service = await restarted(slurm, kube, service)
    await asyncio.sleep(HOUR)
    assert kube.deleted == []
    assert live(slurm) == [job_id]
    assert service.recorder.reasons(UID).count("PlaceholderLost") == 1
    kube.end_containers(UID)
    await asyncio.sleep(60)
    assert live(slurm) == [job_id], "only its name says that it is the scheduler's"
    service.unharmed()
    await service.kill()


async def test_tag_that_is_put_back_after_a_restart_counts_again(slurm, kube):
    service = Service(slurm, kube)
    job_id = await bound(slurm, kube, service)
    tag = slurm.jobs[job_id].admin_comment
    overwrite(slurm, job_id)
    service = await restarted(slurm, kube, service)
    slurm.change(job_id, BaseState.RUNNING, admin_comment=tag)
    await asyncio.sleep(60)
    slurm.end(job_id, BaseState.TIMEOUT)
    await asyncio.sleep(10)
    assert kube.deleted == [UID]
    await service.kill()


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
async def test_end_of_a_job_without_its_tag_has_the_node_asked_for_anew(
    slurm, kube, restarts, forgotten
):
    service = Service(slurm, kube)
    job_id = await bound(slurm, kube, service)
    overwrite(slurm, job_id)
    await asyncio.sleep(60)
    if restarts:
        service = await restarted(slurm, kube, service)
    if forgotten:
        slurm.forget(job_id)
    else:
        slurm.end(job_id, BaseState.CANCELLED)
    await asyncio.sleep(10)
    (pinned,) = live(slurm)
    assert slurm.submissions[pinned].required_nodes == ("n1",)
    if not forgotten:
        assert slurm.submissions[pinned].priority is None, "Slurm did not lose the job"
    service.unharmed()
    await service.kill()


@pytest.mark.parametrize(
    "forged",
    [
        {"tres_allocated": "cpu=1,mem=1M,node=1"},
        {"nodes": ("n2",)},
        {"name": "native"},
    ],
    ids=["holds less", "elsewhere", "another name"],
)
async def test_pod_cannot_live_on_a_job_that_does_not_hold_what_it_uses(slurm, kube, forged):
    """The author's own Slurm job has the name of the pod's, which has ended unseen."""
    service = Service(slurm, kube)
    job_id = await bound(slurm, kube, service)
    await service.kill()
    job = slurm.jobs[job_id]
    slurm.forget(job_id)
    fields = {"name": job.name, "nodes": ("n1",), "tres_allocated": job.tres_allocated}
    small = slurm.add(state=job.state, submit_time=slurm.now(), **(fields | forged))
    kube.edit(UID, {JOB_ID: str(small)})
    service = await restarted(slurm, kube, service)
    assert [slurm.submissions[it].required_nodes for it in live(slurm) if it != small] == [("n1",)]
    slurm.allocated["n1"] = TinySlurm.CPUS
    await asyncio.sleep(60)
    assert kube.deleted == [UID], "others hold what it uses"
    kube.end_containers(UID)
    await asyncio.sleep(60)
    assert live(slurm) == [small]
    service.unharmed()
    await service.kill()


async def test_pod_that_names_a_job_of_such_a_name_still_ends_with_its_own(slurm, kube):
    service = Service(slurm, kube)
    job_id = await bound(slurm, kube, service)
    await service.kill()
    job = slurm.jobs[job_id]
    forged = slurm.add(
        name=job.name,
        state=job.state,
        nodes=("n1",),
        tres_allocated=job.tres_allocated,
        submit_time=slurm.now(),
    )
    kube.edit(UID, {JOB_ID: str(forged)})
    service = await restarted(slurm, kube, service)
    assert service.job_of(UID) == job_id
    slurm.end(job_id, BaseState.TIMEOUT)
    await asyncio.sleep(10)
    assert kube.deleted == [UID]
    assert slurm.live(forged)
    await service.kill()
