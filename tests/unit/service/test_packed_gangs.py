"""Gangs whose pods Slurm packs: it says how many go on each node, and nobody else knows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from scheduler.core.naming import JOB_ID, PACKED, read_tag
from scheduler.kube.wire import PodStatus
from slurmapi import BaseState
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


async def test_nothing_is_decided_while_slurm_does_not_say_how_many(slurm, kube, service):
    service.start()
    create(kube, *range(SIZE))
    await asyncio.sleep(SOON)
    slurm.pack(1, n1=3, n2=1)
    whole = slurm.jobs[1]
    slurm.jobs[1] = replace(whole, cpus_by_node={"n1": 24})
    await asyncio.sleep(60)
    assert kube.bindings == []
    assert (slurm.live(1), len(slurm.submissions)) == (True, 1)
    slurm.jobs[1] = whole
    await asyncio.sleep(60)
    assert dict(kube.bindings) == {"uid-0": "n1", "uid-1": "n1", "uid-2": "n1", "uid-3": "n2"}


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
