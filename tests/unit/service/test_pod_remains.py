"""A pod goes without a word of its containers: its job stays until they must have stopped."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

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
from scheduler.state.pod_remains import KUBELET_SECONDS, Deletion, deletion_of, is_dead, remains_of
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


def report(*states: ContainerState) -> PodStatus:
    """What the kubelet says of containers c, d, ..."""
    names = (chr(ord("c") + number) for number in range(len(states)))
    return PodStatus(phase="Running", container_statuses=tuple(map(ContainerStatus, names, states)))


def ended(exit_code: int) -> ContainerState:
    return ContainerState(terminated=StateTerminated(exit_code=exit_code))


async def test_container_that_has_crashed_may_run_again_when_its_pod_is_deleted_by_force(
    slurm, kube, service
):
    """Its kubelet starts it again, as restartPolicy Always says, and had no time to report that."""
    await run_one(service)
    kube.report(UID, report(ended(1)))
    await asyncio.sleep(2)
    kube.force_delete(UID)
    await asyncio.sleep(GRACE + KUBELET_SECONDS - 2)
    assert slurm.live(1)
    assert service.presence.node_of(UID) == "n1"
    await asyncio.sleep(10)
    assert not slurm.live(1)
    assert service.presence.node_of(UID) is None


@pytest.mark.parametrize("crashed", ["before the deletion", "after the deletion"])
async def test_job_goes_at_once_when_a_pod_is_forced_that_has_stopped_already(
    slurm, kube, service, crashed
):
    """It was being deleted, so its kubelet starts no container again."""
    await run_one(service)
    if crashed == "after the deletion":
        kube.delete(UID)
        await asyncio.sleep(2)
    kube.report(UID, report(ended(1)))
    await asyncio.sleep(2)
    if crashed == "before the deletion":
        kube.delete(UID)
        await asyncio.sleep(2)
    kube.force_delete(UID)
    await asyncio.sleep(2)
    assert not slurm.live(1)
    assert service.presence.node_of(UID) is None


async def test_grace_of_a_deletion_goes_on_when_the_pod_is_then_deleted_by_force(
    slurm, kube, service
):
    await run_one(service)
    kube.delete(UID, grace=1000)
    await asyncio.sleep(400)
    kube.force_delete(UID)
    await asyncio.sleep(600 + KUBELET_SECONDS - 2)
    assert slurm.live(1)
    assert service.presence.node_of(UID) == "n1"
    await asyncio.sleep(10)
    assert not slurm.live(1)
    assert service.presence.node_of(UID) is None


@pytest.mark.parametrize(
    ("policy", "codes", "stopped"),
    [
        ("Always", (0, 0), False),
        ("Never", (1, 0), True),
        ("OnFailure", (0, 0), True),
        ("OnFailure", (0, 1), False),
    ],
)
def test_containers_have_stopped_only_if_the_kubelet_starts_them_no_more(policy, codes, stopped):
    both = (Container(name="c"), Container(name="d"))
    spec = PodSpec(node_name="n1", containers=both, restart_policy=policy)
    pod = Pod(ObjectMeta(name="train", uid=UID), spec, report(*map(ended, codes)))
    assert (remains_of(pod, None, now=0.0) is None) == stopped
    assert remains_of(pod, Deletion(GRACE, 0.0), now=0.0) is None


def test_container_with_a_policy_of_its_own_may_start_again():
    own = (Container(name="c", restart_policy="OnFailure"),)
    spec = PodSpec(node_name="n1", containers=own, restart_policy="Never")
    pod = Pod(ObjectMeta(name="train", uid=UID), spec, report(ended(1)))
    assert remains_of(pod, None, now=0.0) is not None


def deleted(grace: int) -> Pod:
    meta: dict[str, Any] = {"deletion_timestamp": datetime.now(UTC)}
    meta["deletion_grace_period_seconds"] = grace
    return Pod(ObjectMeta(name="train", uid=UID, **meta), PodSpec(node_name="n1"))


def test_deletion_counts_from_when_its_grace_was_first_seen():
    first = deletion_of(deleted(3600), None, now=10.0)
    assert first == Deletion(3600, since=10.0)
    assert deletion_of(deleted(3600), first, now=20.0) is first
    assert deletion_of(deleted(60), first, now=20.0) == Deletion(60, since=20.0)


def test_removal_at_once_is_no_graceful_deletion():
    """The final state of a pod has a grace of 0, whether it is forced or its kubelet confirms."""
    assert deletion_of(deleted(0), None, now=10.0) is None
    known = Deletion(3600, since=5.0)
    assert deletion_of(deleted(0), known, now=10.0) is known


@pytest.mark.parametrize(
    ("given", "elapsed", "left"), [(10, 0, 30), (600, 100, 500), (600, 599, 30)]
)
def test_grace_of_the_spec_is_the_least_that_counts(given, elapsed, left):
    remains = remains_of(deleted(0), Deletion(given, since=0.0), now=float(elapsed))
    assert remains is not None
    assert remains.grace_seconds == left


@pytest.mark.parametrize("sidecar_runs", [True, False])
def test_sidecar_that_still_runs_keeps_the_node(sidecar_runs: bool) -> None:
    """It stops after all others have, and takes its own grace for that."""
    sidecar = ContainerState(running=StateRunning()) if sidecar_runs else ended(0)
    pod = Pod(
        ObjectMeta(name="train", uid=UID),
        PodSpec(node_name="n1", containers=(Container(name="main"),)),
        PodStatus(
            phase="Running",
            container_statuses=(ContainerStatus("main", ended(0)),),
            init_container_statuses=(ContainerStatus("sidecar", sidecar),),
        ),
    )
    remains = remains_of(pod, Deletion(GRACE, since=0.0), now=0.0)
    assert (remains is not None) == sidecar_runs


def test_one_of_two_containers_that_has_ended_frees_no_node() -> None:
    main = ContainerStatus("main", ended(0))
    other = ContainerStatus("other", ContainerState(running=StateRunning()))
    pod = Pod(
        ObjectMeta(name="train", uid=UID),
        PodSpec(node_name="n1", containers=(Container(name="main"), Container(name="other"))),
        PodStatus(phase="Running", container_statuses=(main, other)),
    )
    assert remains_of(pod, Deletion(GRACE, since=0.0), now=0.0) is not None


def test_nothing_runs_on_a_node_that_was_deleted() -> None:
    assert is_dead(None)
