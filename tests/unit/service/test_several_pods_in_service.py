"""The service keeps the job of several pods for as long as any of them may run.

Nothing submits such a job yet, so the tests make the unit and its job.
"""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from scheduler.core.naming import JOB_ID, JOB_NODES
from scheduler.state.member import Member, by_uid
from scheduler.state.units import Placeholder, Unit
from slurmapi import BaseState, JobState
from tests.unit.core.things import GANG
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import OWNER, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UIDS: Final = ("uid-0", "uid-1")
KEPT_SECONDS: Final = 20 + 30
"""The grace period of a pod, and what its kubelet may take beyond that."""


async def running(
    slurm: TinySlurm, kube: TinyKube, service: Service, *, nodes: tuple[str, ...] = ("n1", "n2")
) -> int:
    """Two pods, on the two nodes of their job unless told otherwise."""
    comment = tag_of(owner=OWNER, uids=UIDS, key=GANG)
    job_id = slurm.add(
        name="ns.train.gang",
        admin_comment=comment,
        state=JobState(BaseState.RUNNING),
        nodes=("n1", "n2"),
    )
    service.start()
    await asyncio.sleep(0)  # it has begun to lead, and forgotten all units
    pods = tuple(Member(uid, f"train-{rank}") for rank, uid in enumerate(UIDS))
    service.units.add(Unit(GANG, "ns", "train", 0.0, Placeholder(job_id), members=by_uid(pods)))
    for rank, uid in enumerate(UIDS):
        kube.create(uid, name=f"train-{rank}", node=nodes[rank])
    await asyncio.sleep(10)
    return job_id


async def test_job_outlives_a_pod_that_was_deleted_by_force_though_the_other_has_ended(
    slurm, kube, service
):
    job_id = await running(slurm, kube, service)
    kube.force_delete("uid-1")
    kube.end_containers("uid-0")
    await asyncio.sleep(KEPT_SECONDS - 5)
    assert slurm.live(job_id)
    await asyncio.sleep(15)
    assert not slurm.live(job_id)


async def test_job_outlives_a_pod_that_a_list_lacks_though_the_other_has_ended(
    slurm, kube, service
):
    """Its containers run, whatever the list says; the API server still has it."""
    job_id = await running(slurm, kube, service)
    kube.lose("uid-1")
    kube.end_containers("uid-0")
    await asyncio.sleep(4 * KEPT_SECONDS)
    assert slurm.live(job_id)
    assert slurm.calls["submit"] == 0
    assert kube.deleted == []


async def test_job_ends_as_soon_as_all_its_pods_have_ended(slurm, kube, service):
    job_id = await running(slurm, kube, service)
    kube.end_containers("uid-1")
    kube.delete("uid-1")
    await asyncio.sleep(30)
    assert slurm.live(job_id)
    kube.end_containers("uid-0")
    await asyncio.sleep(5)
    assert not slurm.live(job_id)


async def test_pod_is_not_bound_beside_one_that_no_job_covers_though_another_of_its_unit_runs(
    slurm, kube, service
):
    kube.create("old", name="old", node="n2", annotations={JOB_ID: "999", JOB_NODES: "n2"})
    kube.delete("old")
    job_id = await running(slurm, kube, service, nodes=("n1", ""))
    await asyncio.sleep(30)
    assert kube.bindings == []
    kube.end_containers("old")
    await asyncio.sleep(5)
    assert kube.bindings == [("uid-1", "n2")]
    assert slurm.live(job_id)


async def test_pod_is_not_bound_where_it_does_not_fit_though_another_of_its_unit_runs(
    slurm, kube, service
):
    kube.set_node("n2", cpu="3")
    job_id = await running(slurm, kube, service, nodes=("n1", ""))
    await asyncio.sleep(120)
    assert kube.bindings == []
    told = kube.condition_of("uid-1")
    assert told is not None
    assert told.reason == "NodeUnavailable"
    assert slurm.live(job_id)
    kube.set_node("n2")
    await asyncio.sleep(10)
    assert kube.bindings == [("uid-1", "n2")]
