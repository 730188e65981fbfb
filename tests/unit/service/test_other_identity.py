"""The cluster id has changed: the jobs of the pods that run were made under another one."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.naming import JOB_ID, JOB_NODES, job_name
from scheduler.core.owner_tag import Owner
from slurmapi import BaseState, JobState
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
RUNNING = JobState(BaseState.RUNNING)
FORMER = Owner("former", OWNER.scheduler)


async def runs_in(
    slurm: TinySlurm, kube: TinyKube, service: Service, *uids: str, node: str = "n1"
) -> int:
    """A pod runs on n1, and names a job on `node` that the former owner made for these pods and
    that holds all of n1. Returns the job's id.
    """
    job_id = slurm.add(
        name=job_name("ns", "train", UID),
        admin_comment=tag_of(owner=FORMER, uids=uids),
        state=RUNNING,
        nodes=(node,),
        tres_allocated=f"cpu={TinySlurm.CPUS},mem=1024M,node=1",
        submit_time=slurm.now(),
    )
    slurm.allocated["n1"] = TinySlurm.CPUS
    kube.create(UID, node="n1", annotations={JOB_ID: str(job_id), JOB_NODES: "n1"}, cpu="60")
    await asyncio.sleep(2 * kube.lag)
    service.start()
    await asyncio.sleep(5)
    return job_id


async def test_pod_is_left_alone_as_long_as_its_former_job_runs(slurm, kube, service):
    """A new job for its node would wait behind the former one, which would seem to be another's."""
    job_id = await runs_in(slurm, kube, service, UID)
    await asyncio.sleep(300)
    assert kube.deleted == []
    assert slurm.live(job_id)
    assert slurm.calls["submit"] == slurm.calls["cancel"] == 0
    (event,) = [it for it in service.recorder.events if it.reason == "PlaceholderLost"]
    assert "with the cluster id former" in event.message


async def test_end_of_the_former_job_ends_no_pod_and_has_its_node_asked_for(slurm, kube, service):
    job_id = await runs_in(slurm, kube, service, UID)
    slurm.allocated["n1"] = 0
    slurm.end(job_id, BaseState.CANCELLED)
    await asyncio.sleep(10)
    (pinned,) = slurm.submissions
    assert slurm.submissions[pinned].required_nodes == ("n1",)
    slurm.start(pinned, node="n1")
    await asyncio.sleep(300)
    assert kube.deleted == []
    assert service.job_of(UID) == pinned


async def test_former_job_ends_with_nobody_when_the_pod_ends(slurm, kube, service):
    job_id = await runs_in(slurm, kube, service, UID)
    kube.end_containers(UID)
    await asyncio.sleep(60)
    assert slurm.live(job_id), "it belongs to another identity"


async def test_pod_does_not_live_on_a_job_of_that_identity_for_another_pod(slurm, kube, service):
    job_id = await runs_in(slurm, kube, service, "another-uid")
    await asyncio.sleep(60)
    assert kube.deleted == [UID]
    assert slurm.live(job_id)


async def test_pod_does_not_live_on_its_former_job_on_another_node(slurm, kube, service):
    job_id = await runs_in(slurm, kube, service, UID, node="n2")
    await asyncio.sleep(60)
    assert kube.deleted == [UID]
    assert slurm.live(job_id)


async def test_next_pod_is_bound_beside_a_pod_whose_former_job_holds_the_node(slurm, kube, service):
    await runs_in(slurm, kube, service, UID)
    kube.create("next-uid", name="next")
    await asyncio.sleep(5)
    slurm.start(service.job_of("next-uid"), node="n1")
    await asyncio.sleep(10)
    assert kube.bindings == [("next-uid", "n1")]
