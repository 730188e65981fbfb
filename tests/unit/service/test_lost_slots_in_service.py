"""The job of a gang loses a node and goes on: only the pod there goes, and its slot is gone."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from slurmapi import BaseState
from tests.unit.service.test_gangs import PREFIX, started
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
# A running job is looked at each five seconds.
SOON: Final = 10.0


def again(kube: TinyKube, rank: int) -> str:
    """The controller makes another pod in the place of one that is gone."""
    uid = f"anew-{rank}"
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "2"}
    kube.create(uid, name=f"train-{rank}", annotations=said)
    return uid


async def without_a_node(slurm: TinySlurm, kube: TinyKube, service: Service) -> int:
    """Slurm loses the node of the second pod, which goes; its job goes on."""
    job_id = await started(slurm, kube, service)
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1",))
    await asyncio.sleep(SOON)
    assert kube.deleted == ["uid-1"]
    assert slurm.live(job_id)
    kube.end_containers("uid-1")
    return job_id


async def started_anew(slurm: TinySlurm, kube: TinyKube, job_id: int) -> int:
    """The job for both pods, once the last pod of the former one has ended and come again."""
    kube.end_containers("uid-0")
    again(kube, 0)
    await asyncio.sleep(40)
    assert not slurm.live(job_id)
    (anew,) = set(slurm.submissions) - {job_id}
    assert slurm.submissions[anew].nodes == 2
    return anew


async def test_only_the_pod_of_the_lost_node_goes(slurm, kube, service):
    await without_a_node(slurm, kube, service)
    marked = [
        (uid, told)
        for uid, conditions in kube.patches
        for told in conditions
        if told.type == "DisruptionTarget"
    ]
    ((uid, told),) = marked
    assert (uid, told.reason) == ("uid-1", "NodeFailed")
    assert "goes on with 1 nodes, without node n2" in told.message
    assert "NodeFailed" not in service.recorder.reasons("uid-0")


async def test_pod_that_comes_again_says_that_its_slot_is_lost_until_nothing_runs(
    slurm, kube, service
):
    job_id = await without_a_node(slurm, kube, service)
    uid = again(kube, 1)
    await asyncio.sleep(SOON)
    said = kube.condition_of(uid)
    assert said is not None
    assert said.reason == "GangSlotLost"
    assert "--gang-lost-slot=release" in said.message
    assert slurm.live(job_id)
    assert slurm.calls["submit"] == 1
    kube.delete("uid-0")
    await started_anew(slurm, kube, job_id)


async def test_gang_is_released_where_the_site_wants_it(slurm, kube):
    service = Service(slurm, kube, lost_slot="release")
    job_id = await without_a_node(slurm, kube, service)
    again(kube, 1)
    await asyncio.sleep(SOON)
    assert kube.deleted == ["uid-1", "uid-0"]
    assert service.recorder.reasons("uid-0").count("GangReleased") == 1
    anew = await started_anew(slurm, kube, job_id)
    slurm.change(anew, BaseState.RUNNING, nodes=("n1", "n2"), start_time=1)
    await asyncio.sleep(5)
    assert {"anew-0", "anew-1"} <= {uid for uid, _ in kube.bindings}
    service.unharmed()
    await service.kill()


async def test_half_bound_gang_says_what_the_api_server_refuses(slurm, kube, service):
    """Only the second binding is refused, again and again."""
    job_id = await started(slurm, kube, service)
    kube.report("uid-1", kube.pods["uid-1"].status.__class__(phase="Failed"))
    kube.refuses["bind"] = "a webhook says no"
    uid = again(kube, 1)
    await asyncio.sleep(SOON)
    said = kube.condition_of(uid)
    assert said is not None
    assert said.reason == "BindRefused"
    assert "gang-lost-slot" not in said.message
    await asyncio.sleep(90)
    said = kube.condition_of(uid)
    assert said is not None
    assert "--gang-lost-slot is wait" in said.message
    assert slurm.live(job_id)
    kube.refuses.clear()
    await asyncio.sleep(40)
    assert dict(kube.bindings)[uid] == "n2"
