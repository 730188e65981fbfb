"""Pods of other schedulers take room: a pod is bound only where it fits beside them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.kube.wire import (
    Container,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)

pytestmark = pytest.mark.looptime


def foreign(uid: str, node: str, *, cpu: str = "62") -> Pod:
    """A pod of another scheduler on a Node."""
    container = Container("c", ResourceRequirements(requests={"cpu": cpu}))
    spec = PodSpec(node_name=node, scheduler_name="default-scheduler", containers=(container,))
    meta = ObjectMeta(name=uid, namespace="web", uid=uid, resource_version="1")
    return Pod(meta, spec, PodStatus(phase="Running"))


@pytest.fixture(autouse=True)
async def small_nodes(kube):
    for name in ("n1", "n2"):
        kube.set_node(name, cpu="64")


async def started(service, uid: str, node: str) -> None:
    """Slurm starts the pod's newest job on that node."""
    service.slurm.start(max(service.slurm.jobs), node=node)
    await asyncio.sleep(5)


async def test_pod_that_does_not_fit_gives_the_allocation_back_and_leaves_the_node_out(
    service, slurm, kube
):
    kube.add_neighbour(foreign("web-1", "n1"))
    kube.create("uid-1", cpu="8")
    service.start()
    await asyncio.sleep(5)
    await started(service, "uid-1", "n1")
    assert kube.bindings == []
    messages = [it.message for it in service.recorder.events if it.reason == "NodeUnavailable"]
    assert messages == [
        "Slurm job 1 is allocated, but Kubernetes Node n1 has 2 of 64 CPUs free, the pod requests "
        "8; 62 are requested by pods of other schedulers: the job is cancelled, and the next one "
        "avoids this node"
    ]
    assert slurm.submissions[max(slurm.jobs)].excluded_nodes == ("n1",)
    await started(service, "uid-1", "n2")
    assert kube.bindings == [("uid-1", "n2")]


async def test_pod_that_just_fits_is_bound(service, kube):
    kube.add_neighbour(foreign("web-1", "n1", cpu="56"))
    kube.create("uid-1", cpu="8")
    service.start()
    await asyncio.sleep(5)
    await started(service, "uid-1", "n1")
    assert kube.bindings == [("uid-1", "n1")]


async def test_room_of_a_pod_that_is_being_deleted_is_waited_for(service, kube):
    web = foreign("web-1", "n1")
    gone_at = datetime(2026, 1, 1, tzinfo=UTC)
    leaving = msgspec.structs.replace(web.metadata, deletion_timestamp=gone_at)
    kube.add_neighbour(msgspec.structs.replace(web, metadata=leaving))
    kube.create("uid-1", cpu="8")
    service.start()
    await asyncio.sleep(5)
    await started(service, "uid-1", "n1")
    assert kube.bindings == []
    condition = kube.condition_of("uid-1")
    assert condition is not None
    assert (
        "62 are requested by pods that are being deleted: the pod is bound once"
        in condition.message
    )
    kube.remove_neighbour("web-1")
    await asyncio.sleep(3)
    assert kube.bindings == [("uid-1", "n1")]


async def test_two_pods_that_fit_one_by_one_are_not_both_bound_before_the_watch_shows_the_first(
    service, slurm, kube
):
    kube.lag = 3.0
    for number in (1, 2):
        kube.create(f"uid-{number}", name=f"train-{number}", cpu="40")
    service.start()
    await asyncio.sleep(8)
    for job_id in sorted(slurm.jobs):
        slurm.start(job_id, node="n1")
    await asyncio.sleep(2)
    assert len(kube.bindings) == 1
    assert [it.reason for it in service.recorder.events].count("NodeUnavailable") == 1


async def test_what_came_between_the_look_and_the_binding_is_found_by_the_last_check(service, kube):
    """As where a requeue is noted on the job, which takes as long as Slurm likes."""
    for uid in ("uid-1", "uid-2", "uid-3"):
        kube.create(uid, name=uid, cpu="40")
    await asyncio.sleep(2 * kube.lag)
    assert service.places.claim("uid-1", "n1")
    service.units.binding["uid-1"] = "n1"
    assert not service.places.claim("uid-2", "n1"), "its place is taken"
    assert service.places.claim("uid-2", "n2")
    del service.units.binding["uid-1"]
    assert service.places.claim("uid-3", "n1"), "the first was not bound after all"


async def test_pod_whose_binding_is_shown_to_others_first_is_not_taken_for_its_own_rival(
    service, slurm, kube
):
    kube.create("uid-1", cpu="40")
    service.start()
    await asyncio.sleep(5)
    bound = msgspec.structs.replace(
        kube.pods["uid-1"], spec=msgspec.structs.replace(kube.pods["uid-1"].spec, node_name="n1")
    )
    kube.add_neighbour(bound)
    await started(service, "uid-1", "n1")
    assert kube.bindings == [("uid-1", "n1")]


async def test_node_that_is_too_small_is_left_out_from_the_beginning(service, slurm, kube):
    kube.set_node("n2", cpu="4")
    kube.create("uid-1", cpu="8")
    service.start()
    await asyncio.sleep(5)
    assert slurm.submissions[1].excluded_nodes == ("n2",)


async def test_pod_that_is_too_large_is_told_what_the_largest_node_has(service, kube):
    kube.set_node("n1", cpu="32")
    kube.set_node("n2", cpu="48")
    kube.create("uid-1", cpu="64")
    service.start()
    await asyncio.sleep(5)
    condition = kube.condition_of("uid-1")
    assert condition is not None
    assert condition.message == (
        "None of the 2 Kubernetes Nodes can take the pod: 2 are too small: the largest has 48 "
        "CPUs, the pod requests 64"
    )


async def test_pod_that_no_node_is_large_enough_for_says_so_and_asks_for_no_job(
    service, slurm, kube
):
    kube.create("uid-1", cpu="65")
    service.start()
    await asyncio.sleep(5)
    condition = kube.condition_of("uid-1")
    assert condition is not None
    assert condition.reason == "NoNodeFits"
    assert condition.message == (
        "None of the 2 Kubernetes Nodes can take the pod: 2 are too small: the largest has 64 "
        "CPUs, the pod requests 65"
    )
    assert not slurm.jobs
    kube.set_node("n1", cpu="80")
    await asyncio.sleep(2)
    assert slurm.submissions[1].excluded_nodes == ("n2",)


async def test_without_the_right_to_read_pods_nothing_is_checked(service, kube):
    service.fit.do_without()
    kube.add_neighbour(foreign("web-1", "n1"))
    kube.create("uid-1", cpu="8")
    service.start()
    await asyncio.sleep(5)
    await started(service, "uid-1", "n1")
    assert kube.bindings == [("uid-1", "n1")]


async def test_what_a_pod_demands_is_kept_until_it_changes_or_is_gone(service, kube):
    kube.create("uid-1")
    service.start()
    await asyncio.sleep(2)
    assert len(service.fit._read) == 1
    kube.edit("uid-1", {"sunk.coreweave.com/comment": "another"})
    kube.delete("uid-1")
    await asyncio.sleep(2)
    assert len(service.fit._read) == 0


async def test_pod_that_ends_before_its_binding_is_shown_leaves_its_room_at_once(service, kube):
    """As one that a controller has failed, while the answer to its binding is on the way."""
    for uid in ("uid-1", "uid-2"):
        kube.create(uid, name=uid, cpu="40")
    await asyncio.sleep(2 * kube.lag)
    assert service.places.claim("uid-1", "n1")
    service.units.binding["uid-1"] = "n1"
    assert not service.places.claim("uid-2", "n1")
    before = kube.store.get("uid-1")
    kube.report("uid-1", PodStatus(phase="Failed"))
    await asyncio.sleep(2 * kube.lag)
    service.fit.own_changed(before, kube.store.get("uid-1"))
    assert service.places.claim("uid-2", "n1")
