"""Pods that cannot be served come to a gang that runs: its job holds nothing for them."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from tests.unit.policy.policies import policy
from tests.unit.service.test_gangs import FAILED, PREFIX, member, runs, started
from tests.unit.service.tiny_kube import TinyKube

pytestmark = pytest.mark.looptime
SOON: Final = 10.0


def again(kube: TinyKube, *, wrong: bool = True, gpus: int = 8, size: int = 2) -> str:
    """A pod in the place of the second one, with more GPUs and an annotation that is wrong."""
    kube.report("uid-1", FAILED)
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": str(size)}
    said |= {f"{PREFIX}nice": "very"} if wrong else {}
    kube.create("anew", name="train-1", annotations=said, gpus=gpus)
    return "anew"


async def test_pod_with_a_wrong_annotation_gets_no_slot_whatever_it_asks_for(slurm, kube, service):
    """Its size was not known, so it took any slot: with it GPUs that Slurm gives to others."""
    job_id = await started(slurm, kube, service)
    uid = again(kube)
    await asyncio.sleep(SOON)
    said = kube.condition_of(uid)
    assert said is not None
    assert said.reason == "SchedulingFailed"
    assert "very" in said.message
    assert uid not in dict(kube.bindings)
    assert slurm.live(job_id)
    assert kube.deleted == []
    kube.edit(uid, {f"{PREFIX}nice": "1"})
    await asyncio.sleep(SOON)
    said = kube.condition_of(uid)
    assert said is not None
    assert said.reason == "GangSlotLost"  # its size is known now
    assert uid not in dict(kube.bindings)


async def test_pod_gets_its_slot_once_its_annotation_is_right(slurm, kube, service):
    await started(slurm, kube, service)
    uid = again(kube, gpus=0)
    await asyncio.sleep(SOON)
    assert uid not in dict(kube.bindings)
    kube.edit(uid, {f"{PREFIX}nice": ""})
    kube.edit(uid, {f"{PREFIX}nice": "1"})
    await asyncio.sleep(SOON)
    assert dict(kube.bindings)[uid] == "n2"


async def test_pod_that_the_policy_refuses_gets_no_slot(slurm, kube, service):
    job_id = await started(slurm, kube, service)
    rule = "{name: r, namespaces: [ns], required: [account]}"
    service.rulebook.take(policy(f"rules: [{rule}]"))
    uid = again(kube, wrong=False, gpus=0)
    await asyncio.sleep(SOON)
    said = kube.condition_of(uid)
    assert said is not None
    assert said.reason == "SchedulingFailed"
    assert "account" in said.message
    assert uid not in dict(kube.bindings)
    assert slurm.live(job_id)


async def test_other_pods_that_come_again_are_not_held_up(slurm, kube, service):
    """A gang of three: one runs, one is wrong, and one is right."""
    kube.set_node("n3")
    service.start()
    for rank in range(3):
        member(kube, rank, size=3)
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    await runs(slurm, job_id, "n1", "n2", "n3")
    again(kube, size=3)
    kube.report("uid-2", FAILED)
    member(kube, 2, size=3, uid="right")
    await asyncio.sleep(SOON)
    bound = dict(kube.bindings)
    assert "anew" not in bound
    assert bound["right"] == "n3"
    assert slurm.live(job_id)
