"""The service finds what it does not remember, and leaves alone what is not its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.core.naming import JOB_ID, Owner
from slurmapi import BaseState, JobState, SlurmBusy
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "uid-0"
RUNNING = JobState(BaseState.RUNNING)


def tag(uid: str = UID, *, owner: Owner = OWNER) -> str:
    return tag_of(owner=owner, uids=(uid,))


@pytest.fixture
async def service(slurm: TinySlurm, kube: TinyKube) -> AsyncIterator[Service]:
    service = Service(slurm, kube)
    yield service
    await service.kill()


async def seen(kube: TinyKube) -> None:
    """Until the watch has shown all pods there are."""
    await asyncio.sleep(2 * kube.lag)


def live(slurm: TinySlurm) -> set[int]:
    return {job_id for job_id in slurm.jobs if slurm.live(job_id)}


async def test_unrecorded_job_of_a_waiting_pod_is_adopted(slurm, kube, service):
    job_id = slurm.add(admin_comment=tag())
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 0
    unit = service.units.get(UID)
    assert unit is not None
    assert unit.job is not None
    assert unit.job.job_id == job_id


async def test_job_without_a_pod_is_ended(slurm, kube, service):
    orphan = slurm.add(admin_comment=tag("gone-uid"))
    service.start()
    await asyncio.sleep(10)
    assert not slurm.live(orphan)
    assert len(service.units) == 0


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "{not json",
        tag(owner=Owner("cluster-2", "slurm-scheduler")),
        tag(owner=Owner("cluster-1", "another-scheduler")),
    ],
)
async def test_job_of_others_is_looked_at_once_and_left(slurm, kube, service, comment):
    foreign = slurm.add(admin_comment=comment, name="ns.train.uid-0")
    service.start()
    for _ in range(5):
        await asyncio.sleep(10)
        service.census.ask()
    await asyncio.sleep(10)
    assert slurm.live(foreign)
    assert slurm.calls["cancel"] == 0
    assert slurm.asked.count(("job", (foreign,))) == 1


async def test_of_two_jobs_that_wait_one_stays(slurm, kube, service):
    for _ in range(2):
        slurm.add(admin_comment=tag(), name="ns.train.uid-0")
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert len(live(slurm)) == 1
    unit = service.units.get(UID)
    assert unit is not None
    assert unit.job is not None
    assert live(slurm) == {unit.job.job_id}


@pytest.mark.parametrize("recorded", ["the running", "the waiting"])
async def test_of_two_jobs_the_one_that_runs_stays(slurm, kube, service, recorded):
    running = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    waiting = slurm.add(admin_comment=tag())
    known = running if recorded == "the running" else waiting
    kube.create(UID, annotations={JOB_ID: str(known)})
    await seen(kube)
    service.start()
    await asyncio.sleep(10)
    assert live(slurm) == {running}
    assert kube.bindings == [(UID, "n1")]


@pytest.mark.parametrize("state", [JobState(BaseState.PENDING), RUNNING])
async def test_job_of_others_that_a_pod_claims_is_not_ended_for_a_twin(slurm, kube, service, state):
    """The annotation says what anybody wrote there, or what was true before Slurm's crash."""
    foreign = slurm.add(admin_comment="", state=state, nodes=("n2",))
    ours = slurm.add(admin_comment=tag(), state=RUNNING, nodes=("n1",))
    kube.create(UID, annotations={JOB_ID: str(foreign)})
    await seen(kube)
    service.start()
    await asyncio.sleep(30)
    assert live(slurm) == {foreign, ours}
    assert kube.bindings == [(UID, "n1")]


async def test_nothing_is_submitted_before_all_jobs_were_seen(slurm, kube, service):
    slurm.fail["all_states"].extend([SlurmBusy("not yet")] * 6)
    kube.create(UID)
    await seen(kube)
    service.start()
    await asyncio.sleep(4)
    assert slurm.calls["submit"] == 0
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 1


async def test_lost_answer_to_a_submit_leads_to_one_job(slurm, kube, service):
    service.start()
    await asyncio.sleep(5)
    slurm.lose_next_submit = True
    kube.create(UID)
    await asyncio.sleep(30)
    assert len(live(slurm)) == 1
    assert slurm.calls["submit"] == 1
    slurm.start(next(iter(live(slurm))))
    await asyncio.sleep(5)
    assert len(kube.bindings) == 1
