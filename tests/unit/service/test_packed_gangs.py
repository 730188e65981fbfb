"""Gangs whose pods Slurm packs: it says how many go on each node, and nobody else knows."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from msgspec.structs import replace

from scheduler.core.naming import JOB_ID
from scheduler.core.owner_tag import PACKED, read_tag
from scheduler.kube.wire import PodStatus
from slurmapi import BaseState, Job, SlurmUnreadable
from tests.unit.service.test_gangs import job, of_job
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
PREFIX: Final = "sunk.coreweave.com/"
SIZE: Final = 4
SOON: Final = 5.0


def create(kube: TinyKube, *ranks: int, anew: str = "", cpu: str = "8", **said: str) -> None:
    known = {"gang": "train", "gang-size": str(SIZE), "pods-per-node": "1000", **said}
    annotations = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in known.items()}
    for rank in ranks:
        kube.create(f"uid-{rank}{anew}", name=f"train-{rank}", cpu=cpu, annotations=annotations)


async def packed(slurm: TinySlurm, kube: TinyKube, service: Service, **tasks: int) -> None:
    """The gang runs, with so many pods on each of these nodes."""
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    slurm.pack(1, **tasks)
    await asyncio.sleep(SOON)


async def test_each_node_gets_as_many_pods_as_slurm_says(slurm, kube, service):
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    (submission,) = slurm.submissions.values()
    assert (submission.nodes, submission.tasks, submission.cpus) == (None, SIZE, 8)
    tag = read_tag(submission.admin_comment)
    assert tag is not None
    assert tag.per_node == PACKED
    slurm.pack(1, n2=3, n1=1)
    await asyncio.sleep(SOON)
    assert dict(kube.bindings) == {"uid-0": "n2", "uid-1": "n2", "uid-2": "n2", "uid-3": "n1"}
    assert len(slurm.submissions) == 1


async def test_pod_that_only_names_the_job_of_another_gang_costs_no_long_request(
    slurm, kube, service
):
    await packed(slurm, kube, service, n1=3, n2=1)
    before = slurm.calls["laid_out"]
    for number in range(10):
        name = f"other-{number}"
        kube.create(name, name=name, namespace="other", annotations={JOB_ID: "1"})
    await asyncio.sleep(20)
    assert slurm.calls["job"] > 10
    assert slurm.calls["laid_out"] == before


def untold(slurm: TinySlurm, job_id: int = 1) -> Job:
    """Slurm does not tell the CPUs of one of the nodes; returns the whole record."""
    whole = slurm.jobs[job_id]
    slurm.jobs[job_id] = replace(whole, cpus_by_node={"n1": whole.cpus_by_node["n1"]})
    return whole


async def test_no_pod_is_bound_while_slurm_does_not_say_how_many(slurm, kube, service):
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    slurm.pack(1, n1=3, n2=1)
    whole = untold(slurm)
    await asyncio.sleep(30)
    assert kube.bindings == []
    assert (slurm.live(1), len(slurm.submissions)) == (True, 1)
    said = kube.condition_of("uid-0")
    assert said is not None
    assert "does not say how many CPUs" in said.message
    slurm.jobs[1] = whole
    await asyncio.sleep(20)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n1", "uid-2": "n1", "uid-3": "n2"}


async def test_next_job_is_not_packed_if_slurm_never_says_how_many(slurm, kube, service):
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    slurm.pack(1, n1=3, n2=1)
    untold(slurm)
    await asyncio.sleep(120)
    assert not slurm.live(1)
    assert (slurm.submissions[2].tasks, slurm.submissions[2].nodes) == (None, 1)


async def test_job_of_which_slurm_does_not_say_how_many_is_cancelled_with_its_pods(
    slurm, kube, service
):
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    slurm.pack(1, n1=3, n2=1)
    untold(slurm)
    await asyncio.sleep(20)
    for rank in range(SIZE):
        kube.delete(f"uid-{rank}")
    await asyncio.sleep(90)
    assert not slurm.live(1)


@pytest.mark.parametrize("failures", [1, 2, 5])
async def test_gang_runs_on_if_the_next_process_is_not_told_how_many(slurm, kube, failures):
    first = Service(slurm, kube)
    await packed(slurm, kube, first, n1=3, n2=1)
    await first.kill()
    kube.relist()
    for _ in range(failures):
        slurm.fail["laid_out"].append(SlurmUnreadable("the answer is too large"))
    following = Service(slurm, kube)
    following.start()
    await asyncio.sleep(600)
    assert (len(slurm.submissions), kube.deleted) == (1, [])
    following.unharmed()
    await following.kill()


@pytest.mark.parametrize("owner", ["cluster-1", "other"])
async def test_job_that_cannot_be_counted_keeps_nobody_from_being_served(slurm, kube, owner):
    """One of ours whose pods are gone, or one of another scheduler."""
    first = Service(slurm, kube)
    await packed(slurm, kube, first, n1=3, n2=1)
    await first.kill()
    comment = slurm.jobs[1].admin_comment
    assert '"cluster-1"' in comment
    comment = comment.replace('"cluster-1"', f'"{owner}"')
    slurm.jobs[1] = replace(slurm.jobs[1], cpus_by_node={"n1": 0}, admin_comment=comment)
    for rank in range(SIZE):
        kube.force_delete(f"uid-{rank}")
    kube.relist()
    kube.create("lonely", name="lonely", cpu="1")
    following = Service(slurm, kube)
    following.start()
    await asyncio.sleep(600)
    assert len(slurm.submissions) == 2
    assert slurm.live(1) is (owner == "other")
    assert slurm.calls["laid_out"] <= 10
    following.unharmed()
    await following.kill()


async def test_slurm_that_allocates_whole_sockets_packs_no_second_job(slurm, kube, service):
    """Three tasks are on the first node and one on the second, by sockets of 32 CPUs."""
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    slurm.change(
        1,
        BaseState.RUNNING,
        nodes=("n1", "n2"),
        cpus_by_node={"n1": 32, "n2": 32},
        start_time=slurm.now(),
    )
    await asyncio.sleep(60)
    assert not slurm.live(1)
    assert kube.bindings == []
    assert (slurm.submissions[2].tasks, slurm.submissions[2].tasks_per_node) == (None, SIZE)


async def test_slurm_is_asked_once_how_many_pods_each_node_has(slurm, kube, service):
    await packed(slurm, kube, service, n1=3, n2=1)
    assert slurm.calls["laid_out"] == 1
    before = slurm.calls["job"]
    for number in range(3):
        kube.report("uid-1" if not number else f"uid-1-{number - 1}", PodStatus(phase="Failed"))
        create(kube, 1, anew=f"-{number}")
        await asyncio.sleep(60)
        assert dict(kube.bindings)[f"uid-1-{number}"] == "n1"
    assert slurm.calls["job"] > before + 3
    assert slurm.calls["laid_out"] == 1


async def test_pod_that_comes_again_gets_its_slot_from_the_next_process(slurm, kube):
    first = Service(slurm, kube)
    await packed(slurm, kube, first, n1=1, n2=3)
    await first.kill()
    kube.relist()
    kube.report("uid-2", PodStatus(phase="Failed"))
    create(kube, 2, anew="-again")
    following = Service(slurm, kube)
    following.start()
    await asyncio.sleep(20)
    assert dict(kube.bindings)["uid-2-again"] == "n2"
    assert len(slurm.submissions) == 1
    following.unharmed()
    await following.kill()


async def test_job_that_no_pod_names_is_kept_by_the_next_process(slurm, kube):
    first = Service(slurm, kube)
    first.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    await first.kill()
    for rank in range(SIZE):
        kube.edit(f"uid-{rank}", {JOB_ID: None})
    slurm.pack(1, n1=3, n2=1)
    kube.relist()
    following = Service(slurm, kube)
    following.start()
    await asyncio.sleep(20)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n1", "uid-2": "n1", "uid-3": "n2"}
    assert len(slurm.submissions) == 1
    following.unharmed()
    await following.kill()


async def test_node_is_given_back_when_all_its_pods_have_succeeded(slurm, kube, service):
    kube.groups["train"] = job(parallelism=SIZE, completions=SIZE)
    service.start()
    for rank in range(SIZE):
        of_job(kube, rank, annotations={f"{PREFIX}pods-per-node": "1000"})
    await asyncio.sleep(SOON)
    slurm.pack(1, n1=1, n2=3)
    await asyncio.sleep(SOON)
    kube.end_containers("uid-1")
    await asyncio.sleep(SOON)
    assert slurm.jobs[1].nodes == ("n1", "n2")
    kube.end_containers("uid-0")
    await asyncio.sleep(SOON)
    assert slurm.jobs[1].nodes == ("n2",)
    tag = read_tag(slurm.jobs[1].admin_comment)
    assert tag is not None
    assert tag.at == ("n1", "n2", "n2", "n2")
    assert slurm.live(1)


async def test_lost_node_takes_the_slots_of_its_pods_only(slurm, kube, service):
    service.start()
    create(kube, *range(SIZE), no_kill="true")
    await asyncio.sleep(SOON)
    slurm.pack(1, n1=3, n2=1)
    await asyncio.sleep(SOON)
    slurm.change(1, BaseState.RUNNING, nodes=("n1",))
    await asyncio.sleep(20)
    assert kube.deleted == ["uid-3"]


async def test_lost_job_is_asked_for_anew_with_as_many_pods_on_each_node(slurm, kube, service):
    await packed(slurm, kube, service, n1=3, n2=1)
    slurm.forget(1)
    await asyncio.sleep(120)
    ((first, *others),) = slurm.components.values()
    asked = [(it.required_nodes, it.nodes, it.tasks_per_node) for it in (first, *others)]
    assert asked == [(("n1",), 1, 3), (("n2",), 1, 1)]
    assert kube.deleted == []


async def test_lost_job_with_another_number_of_pods_on_each_of_many_nodes(slurm, kube, service):
    """More components than the shapes that a gang may have."""
    counts = {f"n{number}": number for number in range(1, 10)}
    for node in counts:
        slurm.add_node(node)
        kube.set_node(node, cpu="64")
    slurm.nodes_in["main"] = tuple(counts)
    service.start()
    create(kube, *range(45), cpu="4", gang_size="45")
    await asyncio.sleep(SOON)
    slurm.pack(1, **counts)
    await asyncio.sleep(SOON)
    assert len(kube.bindings) == 45
    slurm.forget(1)
    await asyncio.sleep(120)
    (parts,) = slurm.components.values()
    asked = {it.required_nodes: (it.nodes, it.tasks_per_node) for it in parts}
    assert asked == {(node,): (1, pods) for node, pods in counts.items()}
    assert kube.deleted == []


async def test_packed_gang_gets_a_new_job_in_another_partition(slurm, kube, service):
    slurm.nodes_in["other"] = ("n1", "n2")
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    for rank in range(SIZE):
        kube.edit(f"uid-{rank}", {f"{PREFIX}partition": "other"})
    await asyncio.sleep(60)
    assert not slurm.live(1)
    assert slurm.submissions[max(slurm.jobs)].partition == "other"


async def test_gang_is_laid_out_anew_for_larger_nodes_if_the_site_lets_it_share_them(
    slurm, kube
) -> None:
    """The first partition has two nodes for one pod each, the other has one node for both."""
    for name in ("n1", "n2"):
        slurm.of_node[name] = {"cpus": 8, "job_cpus": 8}
    slurm.add_node("n3")
    slurm.nodes_in["other"] = ("n3",)
    service = Service(slurm, kube, pods_per_node=8)
    service.start()
    for rank in range(2):
        said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "2"}
        kube.create(f"uid-{rank}", name=f"train-{rank}", cpu="8", annotations=said)
    await asyncio.sleep(SOON)
    assert slurm.submissions[1].nodes == 2
    for rank in range(2):
        kube.edit(f"uid-{rank}", {f"{PREFIX}partition": "other"})
    await asyncio.sleep(60)
    assert not slurm.live(1)
    last = slurm.submissions[max(slurm.jobs)]
    assert (last.partition, last.nodes, last.tasks) == ("other", None, 2), "Slurm packs them"
    await service.kill()


async def test_gang_is_laid_out_anew_in_another_partition(slurm, kube, service):
    """Four of the pods fit on a node of the first one, and two on a node of the other."""
    for name in ("n3", "n4"):
        slurm.add_node(name)
        slurm.of_node[name] = {"cpus": 16, "job_cpus": 16}
    slurm.nodes_in["other"] = ("n3", "n4")
    service.start()
    create(kube, *range(SIZE), exclusive="none")
    await asyncio.sleep(SOON)
    assert (slurm.submissions[1].nodes, slurm.submissions[1].tasks_per_node) == (1, 4)
    for rank in range(SIZE):
        kube.edit(f"uid-{rank}", {f"{PREFIX}partition": "other"})
    await asyncio.sleep(60)
    assert not slurm.live(1)
    last = slurm.submissions[max(slurm.jobs)]
    assert (last.partition, last.nodes, last.tasks_per_node) == ("other", 2, 2)
