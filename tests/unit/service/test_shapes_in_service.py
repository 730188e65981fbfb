"""Gangs whose pods have several sizes, or do not divide evenly: one job of several components."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from msgspec.structs import replace

from scheduler.core.naming import GANG_FIRST_NODE
from scheduler.core.owner_tag import OwnerTag, read_tag
from scheduler.state.pod_remains import KUBELET_SECONDS
from slurmapi import BaseState, JobState
from slurmapi.components import joint_job
from tests.unit.service.test_gangs import FAILED, PREFIX
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
GRACE: Final = 20  # of each pod here
WHERE: Final = {"uid-0": "n2", "uid-1": "n1", "uid-2": "n1"}


LARGER: Final[dict[str, tuple[dict[str, str], str]]] = {
    "CPUs": ({"cpu": "9"}, "9 CPUs"),
    "memory": ({"memory": "2Gi"}, "2048 MiB"),
    "devices": ({"gpus": "1"}, "gres/gpu:1"),
    "less memory": ({"memory": "512Mi"}, "512 MiB"),
}


def member(
    kube: TinyKube,
    rank: int,
    *,
    uid: str = "",
    cpu: str = "4",
    memory: str = "1Gi",
    gpus: str = "0",
    **more: str,
) -> None:
    """A pod of a gang of three, of which two may share a node."""
    said = {"gang": "train", "gang-size": "3", "pods-per-node": "2", **more}
    prefixed = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in said.items()}
    name = f"train-{rank}"
    kube.create(
        uid or f"uid-{rank}",
        name=name,
        annotations=prefixed,
        cpu=cpu,
        memory=memory,
        gpus=int(gpus),
    )


def tag_of(slurm: TinySlurm, job_id: int = 1) -> OwnerTag:
    tag = read_tag(slurm.jobs[job_id].admin_comment)
    assert tag is not None
    return tag


async def submitted(slurm: TinySlurm, kube: TinyKube, service: Service, **more: str) -> None:
    """A small leader, and two workers that share a node."""
    service.start()
    for rank, cpu in enumerate(("1", "8", "8")):
        member(kube, rank, cpu=cpu, **more)
    await asyncio.sleep(2)


async def started(slurm: TinySlurm, kube: TinyKube, service: Service) -> None:
    await submitted(slurm, kube, service)
    slurm.start_parts(1, ("n2",), ("n1",))
    await asyncio.sleep(5)
    assert dict(kube.bindings) == WHERE


async def test_each_shape_is_a_component_and_each_pod_gets_a_slot_of_its_shape(
    slurm, kube, service
):
    await started(slurm, kube, service)
    assert slurm.calls["submit"] == 1
    leader, workers = slurm.components[1]
    assert (leader.cpus, leader.nodes, leader.tasks_per_node) == (1, 1, 1)
    assert (workers.cpus, workers.nodes, workers.tasks_per_node) == (8, 1, 2)
    assert (leader.name, workers.admin_comment) == (workers.name, "")
    tag = tag_of(slurm)
    assert (tag.ranks, [(it.slots, it.per_node) for it in tag.parts]) == (
        (0, 1, 2),
        [(1, 1), (2, 2)],
    )
    assert kube.pods["uid-1"].metadata.annotations[GANG_FIRST_NODE] == "n2"


async def test_remainder_is_a_component_on_a_node_of_its_own(slurm, kube, service):
    service.start()
    for rank in range(3):
        member(kube, rank)
    await asyncio.sleep(2)
    assert [(it.nodes, it.tasks_per_node) for it in slurm.components[1]] == [(1, 2), (1, 1)]
    slurm.start_parts(1, ("n2",), ("n1",))
    await asyncio.sleep(5)
    assert dict(kube.bindings) == {"uid-0": "n2", "uid-1": "n2", "uid-2": "n1"}


async def test_ranks_of_one_shape_need_not_follow_each_other(slurm, kube, service):
    service.start()
    for rank, cpu in enumerate(("8", "1", "8")):
        member(kube, rank, cpu=cpu)
    await asyncio.sleep(2)
    assert [it.cpus for it in slurm.components[1]] == [8, 1]
    assert tag_of(slurm).ranks == (0, 2, 1)
    slurm.start_parts(1, ("n1",), ("n2",))
    await asyncio.sleep(5)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n2", "uid-2": "n1"}


async def test_pod_that_comes_again_gets_its_slot_also_from_the_next_process(slurm, kube):
    first = Service(slurm, kube)
    await started(slurm, kube, first)
    await first.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(5)
    kube.report("uid-0", FAILED)
    member(kube, 0, uid="anew", cpu="1")
    await asyncio.sleep(5)
    assert dict(kube.bindings)["anew"] == "n2"
    assert slurm.calls["submit"] == 1
    assert slurm.live(1)
    second.unharmed()
    await second.kill()


@pytest.mark.parametrize("what", LARGER)
async def test_pod_that_comes_again_with_another_size_waits_and_says_so(slurm, kube, service, what):
    asks, text = LARGER[what]
    await started(slurm, kube, service)
    kube.report("uid-0", FAILED)
    member(kube, 0, uid="anew", **{"cpu": "1", **asks})
    await asyncio.sleep(10)
    assert "anew" not in dict(kube.bindings)
    said = kube.condition_of("anew")
    assert said is not None
    assert said.reason == "GangSlotLost"
    assert "rank 0 (train-0) asks for" in said.message
    assert text in said.message
    assert slurm.live(1)
    assert kube.deleted == []


@pytest.mark.parametrize("what", LARGER)
async def test_gang_is_released_for_a_pod_that_comes_again_with_another_size(slurm, kube, what):
    service = Service(slurm, kube, lost_slot="release")
    await started(slurm, kube, service)
    kube.report("uid-0", FAILED)
    member(kube, 0, uid="anew", **{"cpu": "1", **LARGER[what][0]})
    await asyncio.sleep(10)
    assert sorted(kube.deleted) == ["uid-1", "uid-2"]
    assert "anew" not in dict(kube.bindings)
    await service.kill()


@pytest.mark.parametrize("what", LARGER)
async def test_pod_of_a_gang_of_one_shape_that_comes_again_with_another_size_waits(
    slurm, kube, service, what
):
    service.start()
    for rank in range(2):
        member(kube, rank, gang_size="2")
    await asyncio.sleep(2)
    assert slurm.components == {}
    slurm.change(1, BaseState.RUNNING, nodes=("n1",), start_time=1)
    await asyncio.sleep(5)
    assert len(kube.bindings) == 2
    kube.report("uid-1", FAILED)
    member(kube, 1, uid="anew", gang_size="2", **LARGER[what][0])
    await asyncio.sleep(10)
    said = kube.condition_of("anew")
    assert said is not None
    assert (said.reason, "anew" in dict(kube.bindings)) == ("GangSlotLost", False)


async def test_pods_with_other_annotations_are_told(slurm, kube, service):
    service.start()
    for rank in range(3):
        member(kube, rank, cpu=str(rank + 1), **({"partition": "other"} if rank == 2 else {}))
    await asyncio.sleep(3)
    assert slurm.calls["submit"] == 0
    said = kube.condition_of("uid-2")
    assert said is not None
    assert (said.reason, "partition 'other'" in said.message) == ("SchedulingFailed", True)


async def test_nodes_can_not_be_required_of_several_shapes(slurm, kube, service):
    await submitted(slurm, kube, service, required_nodes="n1")
    assert slurm.calls["submit"] == 0
    said = kube.condition_of("uid-0")
    assert said is not None
    assert "several sizes" in said.message


async def test_component_that_has_ended_ends_the_pods_and_the_other_components(
    slurm, kube, service
):
    """Slurm ends a component alone if somebody cancels it, or if it ends the first one."""
    await started(slurm, kube, service)
    first, second = slurm.jobs[1].parts
    slurm.jobs[1] = joint_job((first, replace(second, state=JobState(BaseState.CANCELLED))))
    await asyncio.sleep(10)
    assert sorted(kube.deleted) == ["uid-0", "uid-1", "uid-2"]
    assert slurm.calls["cancel"] == 0
    for rank in range(3):
        kube.end_containers(f"uid-{rank}")
    await asyncio.sleep(10)
    assert slurm.calls["cancel"] == 1


async def test_other_components_are_kept_for_pods_that_were_deleted_by_force(slurm, kube, service):
    """The script of one component dies, so its pod gets a new job, which replaces the old one."""
    await started(slurm, kube, service)
    for rank in (1, 2):
        kube.force_delete(f"uid-{rank}")
    leader, workers = slurm.jobs[1].parts
    slurm.jobs[1] = joint_job((replace(leader, state=JobState(BaseState.OUT_OF_MEMORY)), workers))
    await asyncio.sleep(GRACE + KUBELET_SECONDS - 2)
    assert slurm.calls["cancel"] == 0
    await asyncio.sleep(10)
    assert slurm.calls["cancel"] == 1
    assert slurm.submissions[max(slurm.submissions)].required_nodes == ("n2",)
    assert kube.deleted == []


async def test_next_process_ends_what_is_left_of_a_job(slurm, kube):
    first = Service(slurm, kube)
    await started(slurm, kube, first)
    await first.kill()
    for rank in range(3):
        kube.force_delete(f"uid-{rank}")
    leader, workers = slurm.jobs[1].parts
    slurm.jobs[1] = joint_job((replace(leader, state=JobState(BaseState.NODE_FAIL)), workers))
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(120)
    assert slurm.calls["cancel"] == 1
    second.unharmed()
    await second.kill()


async def test_lost_job_is_asked_for_anew_for_the_nodes_of_each_shape(slurm, kube, service):
    await started(slurm, kube, service)
    slurm.forget(1)
    await asyncio.sleep(60)
    assert kube.deleted == []
    (anew,) = set(slurm.components) - {1}
    leader, workers = slurm.components[anew]
    assert (leader.cpus, leader.nodes, leader.required_nodes) == (1, 1, ("n2",))
    assert (workers.cpus, workers.nodes, workers.required_nodes) == (8, 1, ("n1",))
    tag = tag_of(slurm, anew)
    assert (tag.uids, tag.pinned) == (("uid-0", "uid-1", "uid-2"), ("n2", "n1"))
    slurm.start_parts(anew, ("n2",), ("n1",))
    await asyncio.sleep(30)
    assert kube.deleted == []
    assert slurm.live(anew)


async def test_edit_reaches_every_component(slurm, kube, service):
    await submitted(slurm, kube, service, comment="before")
    await asyncio.sleep(5)
    for rank in range(3):
        kube.edit(f"uid-{rank}", {f"{PREFIX}comment": "after"})
    await asyncio.sleep(40)
    assert [it.comment for it in slurm.jobs[1].parts] == ["after", "after"]
    assert tag_of(slurm).parts
    assert slurm.jobs[1].parts[1].admin_comment == ""
    assert slurm.calls["submit"] == 1


async def test_each_component_avoids_the_nodes_that_its_pods_cannot_use(slurm, kube, service):
    """The workers have no room on the smaller Node, the leader has."""
    kube.set_node("n1", cpu="4")
    await submitted(slurm, kube, service)
    leader, workers = slurm.components[1]
    assert (leader.excluded_nodes, workers.excluded_nodes) == ((), ("n1",))
    kube.set_node("n1", cpu="64")
    await asyncio.sleep(60)
    assert [it.excluded_nodes for it in slurm.jobs[1].parts] == [(), ()]
    kube.set_node("n2", cpu="4")
    await asyncio.sleep(60)
    assert [it.excluded_nodes for it in slurm.jobs[1].parts] == [(), ("n2",)]


async def test_gang_that_waits_and_gets_another_shape_is_asked_for_anew(slurm, kube, service):
    service.start()
    for rank in range(3):
        member(kube, rank)
    await asyncio.sleep(5)
    kube.force_delete("uid-2")
    member(kube, 2, uid="anew", cpu="1")
    await asyncio.sleep(60)
    assert not slurm.live(1)
    (anew,) = set(slurm.components) - {1}
    assert [(it.cpus, it.tasks_per_node) for it in slurm.components[anew]] == [(4, 2), (1, 1)]


async def test_pod_comes_again_after_the_first_component_has_lost_a_node(slurm, kube, service):
    """The tag then has fewer slots, and still says which component has which."""
    slurm.add_node("n3")
    kube.set_node("n3")
    service.start()
    for rank, cpu in enumerate(("8", "8", "1")):
        member(kube, rank, cpu=cpu, pods_per_node="1", no_kill="true")
    await asyncio.sleep(2)
    slurm.start_parts(1, ("n1", "n2"), ("n3",))
    await asyncio.sleep(5)
    first, second = slurm.jobs[1].parts
    slurm.jobs[1] = joint_job((replace(first, nodes=("n1",)), second))
    await asyncio.sleep(10)
    assert kube.deleted == ["uid-1"]
    kube.end_containers("uid-1")
    kube.report("uid-0", FAILED)
    member(kube, 0, uid="anew", cpu="8", pods_per_node="1", no_kill="true")
    await asyncio.sleep(10)
    assert dict(kube.bindings)["anew"] == "n1"
    tag = tag_of(slurm)
    assert (tag.uids, [it.slots for it in tag.parts]) == (("anew", "uid-2"), [1, 1])
    assert (slurm.calls["submit"], slurm.live(1)) == (1, True)
