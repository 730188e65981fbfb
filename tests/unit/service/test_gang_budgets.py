"""One tenant's gangs cost the API server a bounded number of requests, whatever is edited."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from annotations import PREFIX
from scheduler.core.budgets import Budgets
from scheduler.core.gang_objects import GroupMeta, PluginsPodGroup, PluginsPodGroupSpec
from scheduler.core.naming import JOB_ID
from scheduler.execute import gang as gang_hand
from scheduler.execute import tell
from scheduler.kube.errors import KubeGarbled
from slurmapi import BaseState
from tests.unit.service.test_gangs import add_nodes, member, run_on_nodes

pytestmark = pytest.mark.looptime
_SIZE = 32
_BURST = 3 * _SIZE
_PACE = (_BURST, 2.0)


@pytest.fixture(autouse=True)
def small_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tell, "GANG_WRITES", _PACE)
    monkeypatch.setattr(gang_hand, "READS_AGAIN", _PACE)


async def test_pod_that_is_edited_to_and_fro_has_not_all_others_written_on(slurm, kube, service):
    """A gang of 1024 pods had 307 writes a second."""
    service.start()
    for rank in range(_SIZE):
        member(kube, rank, size=_SIZE)
    await asyncio.sleep(20)
    before, began = kube.asked["patch"], asyncio.get_running_loop().time()
    for _ in range(20):
        kube.edit("uid-5", {f"{PREFIX}nonsense": "1"})
        await asyncio.sleep(5)
        kube.edit("uid-5", {f"{PREFIX}nonsense": None})
        await asyncio.sleep(5)
    seconds = asyncio.get_running_loop().time() - began
    refusals = 20  # that of the pod that is edited
    assert kube.asked["patch"] - before <= _BURST + seconds / _PACE[1] + refusals


async def test_gang_without_budget_is_bound_and_told_later(slurm, kube, service):
    nodes = add_nodes(slurm, kube, _SIZE)
    service.start()
    for rank in range(_SIZE):
        member(kube, rank, size=_SIZE, gang="train")
        kube.create(f"no-{rank}", name=f"other-{rank}", namespace="other")
    for _ in range(10):
        kube.edit("uid-5", {f"{PREFIX}nonsense": "1"})
        await asyncio.sleep(5)
        kube.edit("uid-5", {f"{PREFIX}nonsense": None})
        await asyncio.sleep(5)
    told = [kube.condition_of(f"no-{rank}") for rank in range(_SIZE)]
    assert all(it is not None and "job" in it.message for it in told), "others are not held up"
    await asyncio.sleep(2 * _SIZE * _PACE[1] + 20)
    said = {kube.condition_of(f"uid-{rank}").reason for rank in range(_SIZE)}
    assert said == {"SlurmPending"}
    job = max(it for it in slurm.jobs if slurm.jobs[it].name.startswith("ns.train"))
    slurm.change(job, BaseState.RUNNING, nodes=nodes, start_time=1)
    await asyncio.sleep(10)
    assert {uid for uid, _ in kube.bindings} >= {f"uid-{rank}" for rank in range(_SIZE)}


async def test_objects_of_incomplete_gangs_are_read_again_at_a_bounded_pace(kube, service):
    """600 pods, each of a gang of its own, had 20 reads a second. Each gang gets its turn."""
    read = Counter[str]()
    get = kube.get_group

    async def counted(ref):
        read[ref.name] += 1
        return await get(ref)

    kube.get_group = counted
    service.start()
    gangs = 200
    for number in range(gangs):
        meta = GroupMeta(name=f"g{number}", uid=f"group-{number}")
        kube.groups[f"g{number}"] = PluginsPodGroup(meta, PluginsPodGroupSpec(min_member=2))
        labels = {"scheduling.x-k8s.io/pod-group": f"g{number}"}
        kube.create(f"uid-{number}", name=f"pod-{number}", labels=labels)
    await asyncio.sleep(25)
    before = Counter(read)
    assert len(before) == gangs
    await asyncio.sleep(1000)
    assert read.total() <= before.total() + _BURST + 1000 / _PACE[1]
    assert min((read - before).values()) >= 2
    assert len(read - before) == gangs
    kube.create("uid-last", name="last", labels={"scheduling.x-k8s.io/pod-group": "g7"})
    submitted = service.slurm.calls["submit"]
    await asyncio.sleep(10)
    assert service.slurm.calls["submit"] == submitted + 1


async def test_reads_that_fail_are_repeated_at_the_same_pace(kube, service):
    async def get_group(_ref):
        kube.asked["get_group"] += 1
        raise KubeGarbled("no integer")

    kube.get_group = get_group
    service.start()
    for number in range(100):
        labels = {"scheduling.x-k8s.io/pod-group": f"g{number}"}
        kube.create(f"uid-{number}", name=f"pod-{number}", labels=labels)
    await asyncio.sleep(600)
    assert 100 < kube.asked["get_group"] <= 100 + _BURST + 600 / _PACE[1]


async def test_new_job_of_a_running_gang_is_recorded_without_budget(
    slurm, kube, service, monkeypatch
):
    """Its pods get no Binding that would write it, and named the lost job for ever."""
    nodes = await run_on_nodes(slurm, kube, service, _SIZE)
    await asyncio.sleep(20)
    assert len(kube.bindings) == _SIZE
    monkeypatch.setattr(service.teller, "_gang_writes", Budgets(1, 6000.0))
    slurm.forget(1)
    await asyncio.sleep(60)
    job = max(slurm.submissions)
    assert job > 1
    slurm.change(job, BaseState.RUNNING, nodes=nodes, start_time=1)
    await asyncio.sleep(60)
    named = {kube.pods[f"uid-{rank}"].metadata.annotations[JOB_ID] for rank in range(_SIZE)}
    assert named == {str(job)}


async def test_pod_that_is_refused_without_budget_is_told_once(kube, service, monkeypatch):
    monkeypatch.setattr(service.teller, "_gang_writes", Budgets(1, 6000.0))
    service.start()
    for rank in range(4):
        member(kube, rank, size=4)
    kube.edit("uid-0", {f"{PREFIX}nonsense": "1"})
    await asyncio.sleep(120)
    assert service.recorder.reasons("uid-0").count("SchedulingFailed") == 1
    assert kube.condition_of("uid-0").reason == "SchedulingFailed"
