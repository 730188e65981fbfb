"""A running pod has lost its job, and what holds its node now are jobs of this scheduler in which
no pod runs: the pod stays.
"""

from __future__ import annotations

import asyncio

import pytest

from slurmapi import BaseState, JobState
from tests.unit.core.things import tag as tag_of
from tests.unit.service.tiny_service import OWNER
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
OTHER = "76543210-89ab"
RUNNING = JobState(BaseState.RUNNING)
WHOLE = f"cpu={TinySlurm.CPUS},mem=1024M,node=1"


def fills(slurm: TinySlurm, job_id: int) -> None:
    """The job holds all of the node n1, until it is cancelled."""
    slurm.allocated["n1"] = TinySlurm.CPUS

    def freed(job) -> None:
        if job.job_id == job_id:
            slurm.allocated["n1"] = 0

    slurm.on_cancel = freed


async def started_where_it_may(slurm: TinySlurm, *, seconds: int) -> None:
    """Slurm starts what waits for as long."""
    for _ in range(seconds):
        await asyncio.sleep(1)
        for job_id in sorted(slurm.submissions):
            node = slurm.may_start(job_id)
            if node is not None:
                slurm.start(job_id, node=node)


async def test_job_of_a_pod_that_is_gone_which_an_old_state_brings_back(slurm, kube, service):
    """slurmctld starts with a backup of its state."""
    service.start()
    former = await service.bound(UID)
    slurm.forget(former)
    zombie = slurm.add(
        admin_comment=tag_of(owner=OWNER, uids=("gone-uid",)),
        state=RUNNING,
        nodes=("n1",),
        tres_allocated=WHOLE,
    )
    fills(slurm, zombie)
    await started_where_it_may(slurm, seconds=300)
    assert kube.deleted == []
    assert not slurm.live(zombie)
    held = slurm.jobs[service.job_of(UID)]
    assert (held.state, held.nodes) == (RUNNING, ("n1",))


async def test_job_of_a_pod_that_waits_which_slurm_has_started_there(slurm, kube, service):
    """slurmctld crashes, forgets what it did last, and at once starts what is next in the queue."""
    service.start()
    former = await service.bound(UID)
    kube.create(OTHER, name="waits")
    await asyncio.sleep(5)
    waiting = service.job_of(OTHER)
    slurm.forget(former)
    slurm.start(waiting, node="n1")
    slurm.change(waiting, BaseState.RUNNING, tres_allocated=WHOLE)
    fills(slurm, waiting)
    await started_where_it_may(slurm, seconds=300)
    assert kube.deleted == []
    held = slurm.jobs[service.job_of(UID)]
    assert (held.state, held.nodes) == (RUNNING, ("n1",))
    assert kube.bindings == [(UID, "n1"), (OTHER, "n2")]
