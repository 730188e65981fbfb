"""A pod goes without a word of its containers: its job stays until they must have stopped."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.core.node_suitability import Taint
from scheduler.kube.wire import (
    Container,
    ContainerState,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    StateRunning,
    StateTerminated,
)
from scheduler.state.pod_remains import KUBELET_SECONDS, is_dead, remains_of
from slurmapi import SlurmUnreachable
from tests.unit.service.tiny_service import Service

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
GRACE = 20  # of each pod here


async def run_one(service: Service) -> None:
    service.start()
    await service.bound(UID)


async def test_job_of_a_pod_deleted_by_force_outlasts_its_grace(slurm, kube, service):
    await run_one(service)
    kube.force_delete(UID)
    await asyncio.sleep(GRACE + KUBELET_SECONDS - 2)
    assert slurm.live(1)
    await asyncio.sleep(10)
    assert not slurm.live(1)


async def test_job_goes_at_once_when_the_containers_have_ended(slurm, kube, service):
    await run_one(service)
    kube.delete(UID)
    await asyncio.sleep(1)
    kube.end_containers(UID)
    await asyncio.sleep(3)
    assert not slurm.live(1)


async def test_job_goes_when_the_node_is_out_of_service(slurm, kube, service):
    await run_one(service)
    kube.force_delete(UID)
    await asyncio.sleep(5)
    assert slurm.live(1)
    taint = Taint("node.kubernetes.io/out-of-service", "NoExecute", "nodeshutdown")
    kube.set_node("n1", taints=(taint,))
    await asyncio.sleep(10)
    assert not slurm.live(1)


async def started_after_the_pod_went(slurm, kube, *, runs: bool = True) -> Service:
    """A scheduler of which the former one has seen the pod last, running or still waiting."""
    former = Service(slurm, kube)
    former.start()
    kube.create(UID)
    await asyncio.sleep(2)
    if runs:
        slurm.start(1, node="n1")
        await asyncio.sleep(5)
        assert kube.runs(UID)
    await former.kill()
    kube.force_delete(UID)
    kube.relist()
    service = Service(slurm, kube)
    service.start()
    return service


async def test_job_of_a_pod_that_went_while_no_scheduler_ran_outlasts_its_grace(slurm, kube):
    service = await started_after_the_pod_went(slurm, kube)
    await asyncio.sleep(GRACE + KUBELET_SECONDS - 2)
    assert slurm.live(1)
    await asyncio.sleep(10)
    assert not slurm.live(1)
    await service.kill()


async def test_such_a_job_goes_when_the_node_is_out_of_service(slurm, kube):
    service = await started_after_the_pod_went(slurm, kube)
    await asyncio.sleep(10)
    assert slurm.live(1)
    taint = Taint("node.kubernetes.io/out-of-service", "NoExecute", "nodeshutdown")
    kube.set_node("n1", taints=(taint,))
    await asyncio.sleep(10)
    assert not slurm.live(1)
    await service.kill()


async def test_such_a_job_goes_at_once_where_it_was_about_to_be_cancelled(slurm, kube):
    former = Service(slurm, kube)
    await run_one(former)
    kube.end_containers(UID)
    slurm.fail["cancel"].extend([SlurmUnreachable("slow")] * 100)
    kube.delete(UID)
    await asyncio.sleep(5)
    assert slurm.live(1)
    await former.kill()
    kube.relist()
    slurm.fail["cancel"].clear()
    service = Service(slurm, kube)
    service.start()
    await asyncio.sleep(5)
    assert not slurm.live(1)
    await service.kill()


async def test_such_a_job_that_waits_goes_at_once(slurm, kube):
    service = await started_after_the_pod_went(slurm, kube, runs=False)
    await asyncio.sleep(5)
    assert not slurm.live(1)
    await service.kill()


async def test_job_of_a_pod_that_was_never_bound_goes_at_once(slurm, kube, service):
    service.start()
    kube.create(UID)
    await asyncio.sleep(2)
    kube.delete(UID)
    await asyncio.sleep(3)
    assert not slurm.live(1)


@pytest.mark.parametrize("sidecar_runs", [True, False])
def test_sidecar_that_still_runs_keeps_the_node(sidecar_runs: bool) -> None:
    """It stops after all others have, and takes its own grace for that."""
    ended = ContainerState(terminated=StateTerminated(exit_code=0))
    sidecar = ContainerState(running=StateRunning()) if sidecar_runs else ended
    pod = Pod(
        ObjectMeta(name="train", uid=UID),
        PodSpec(node_name="n1", containers=(Container(name="main"),)),
        PodStatus(
            phase="Running",
            container_statuses=(ContainerStatus("main", ended),),
            init_container_statuses=(ContainerStatus("sidecar", sidecar),),
        ),
    )
    assert (remains_of(pod) is not None) == sidecar_runs


def test_one_of_two_containers_that_has_ended_frees_no_node() -> None:
    ended = ContainerStatus("main", ContainerState(terminated=StateTerminated(exit_code=0)))
    other = ContainerStatus("other", ContainerState(running=StateRunning()))
    pod = Pod(
        ObjectMeta(name="train", uid=UID),
        PodSpec(node_name="n1", containers=(Container(name="main"), Container(name="other"))),
        PodStatus(phase="Running", container_statuses=(ended, other)),
    )
    assert remains_of(pod) is not None


def test_nothing_runs_on_a_node_that_was_deleted() -> None:
    assert is_dead(None)
