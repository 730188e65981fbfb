"""No pod is bound beside one that the watch shows too late (I12): its Binding was stored, but its
answer was lost. The API server says that the pod is on the Node before the watch does.
"""

from __future__ import annotations

import asyncio

import pytest

from scheduler.kube.errors import KubeInterrupted
from scheduler.nodes.presence import CLAIM_SECONDS
from scheduler.state.pod_remains import KUBELET_SECONDS
from slurmapi import BaseState
from tests.unit.service.test_loose_ends import until
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
OLD = "old"
NEW = "new"
GRACE = 20  # of each pod here
LATE = 8.0  # seconds by which the watch is late


def job_of(slurm: TinySlurm, uid: str) -> int:
    return max(it for it, job in slurm.jobs.items() if f'"{uid}"' in job.admin_comment)


async def lost_binding(slurm: TinySlurm, kube: TinyKube) -> int:
    """The Binding of the old pod to n1 is stored, and nobody is told; gives its job."""
    kube.create(OLD, name="old")
    kube.create(NEW, name="new")
    await asyncio.sleep(5)
    job_id = job_of(slurm, OLD)
    kube.lag, kube.lose_next_binding = LATE, True
    kube.fail["get"].extend(KubeInterrupted("no answer") for _ in range(4))
    slurm.start(job_id, node="n1")
    await bound(kube, OLD)
    return job_id


async def bound(kube: TinyKube, uid: str) -> None:
    await until(lambda: (uid, "n1") in kube.bindings, seconds=30)


async def waits_for(kube: TinyKube, uid: str, *, seconds: float = 20) -> None:
    """The new pod is not bound while the other runs, and soon after that has ended."""
    for _ in range(int(10 * seconds)):
        assert (NEW, "n1") not in kube.bindings
        await asyncio.sleep(0.1)
    assert kube.runs(uid)
    kube.end_containers(uid)
    await bound(kube, NEW)


async def test_pod_waits_for_one_whose_job_was_preempted_at_once(slurm, kube, service):
    service.start()
    job_id = await lost_binding(slurm, kube)
    slurm.end(job_id, BaseState.PREEMPTED)
    slurm.start(job_of(slurm, NEW), node="n1")
    await waits_for(kube, OLD)
    assert kube.deleted == [OLD]


async def test_pod_waits_for_one_whose_job_has_moved_to_another_node(slurm, kube, service):
    service.start()
    job_id = await lost_binding(slurm, kube)
    slurm.requeue(job_id)
    await asyncio.sleep(1)
    slurm.start(job_id, node="n2")
    slurm.start(job_of(slurm, NEW), node="n1")
    await waits_for(kube, OLD)


async def test_pod_waits_for_what_a_vanished_one_left(slurm, kube, service):
    """The old pod is deleted by force before the watch has shown it on the Node."""
    service.start()
    await asyncio.sleep(CLAIM_SECONDS)  # its annotations do not say any more who bound it
    job_id = await lost_binding(slurm, kube)
    kube.force_delete(OLD)
    slurm.start(job_of(slurm, NEW), node="n1")
    slurm.end(job_id, BaseState.PREEMPTED)
    for _ in range(int(10 * (GRACE + KUBELET_SECONDS))):
        assert (NEW, "n1") not in kube.bindings
        await asyncio.sleep(0.1)
    await bound(kube, NEW)
