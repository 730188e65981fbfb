"""One tenant's gangs cost the API server a bounded number of requests, whatever is edited."""

from __future__ import annotations

import asyncio

import pytest

from annotations import PREFIX
from scheduler.core.gang_objects import GroupMeta, PluginsPodGroup, PluginsPodGroupSpec
from scheduler.execute import gang as gang_hand
from scheduler.execute import tell
from slurmapi import BaseState
from tests.unit.service.test_gangs import member

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
    nodes = tuple(f"w{number}" for number in range(_SIZE))
    for node in nodes:
        slurm.add_node(node)
        kube.set_node(node)
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
    """600 pods, each of a gang of its own, had 20 reads a second."""
    service.start()
    gangs = 200
    for number in range(gangs):
        meta = GroupMeta(name=f"g{number}", uid=f"group-{number}")
        kube.groups[f"g{number}"] = PluginsPodGroup(meta, PluginsPodGroupSpec(min_member=2))
        labels = {"scheduling.x-k8s.io/pod-group": f"g{number}"}
        kube.create(f"uid-{number}", name=f"pod-{number}", labels=labels)
    await asyncio.sleep(25)
    before = kube.asked["get_group"]
    assert before >= gangs
    await asyncio.sleep(600)
    assert kube.asked["get_group"] <= before + _BURST + 600 / _PACE[1]
    kube.create("uid-last", name="last", labels={"scheduling.x-k8s.io/pod-group": "g7"})
    before = service.slurm.calls["submit"]
    await asyncio.sleep(10)
    assert service.slurm.calls["submit"] == before + 1
