"""The job of a gang loses a node and goes on: only the pod there goes, and its slot is gone."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest

from slurmapi import BaseState
from tests.unit.policy.policies import policy
from tests.unit.service.test_gangs import PREFIX, started
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
# A running job is looked at each five seconds.
SOON: Final = 10.0


def again(kube: TinyKube, rank: int, **more: str) -> str:
    """The controller makes another pod in the place of one that is gone."""
    uid, former = f"anew-{rank}", f"uid-{rank}"
    if former in kube.pods:
        kube.delete(former)  # no two pods have one name
    said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "2"}
    said |= {PREFIX + name.replace("_", "-"): value for name, value in more.items()}
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


async def test_annotation_of_the_pod_that_comes_again_has_the_gang_released(slurm, kube, service):
    job_id = await without_a_node(slurm, kube, service)
    again(kube, 1, gang_lost_slot="release")
    await asyncio.sleep(SOON)
    assert kube.deleted == ["uid-1", "uid-0"]
    told = [it.message for it in service.recorder.events if it.reason == "GangReleased"]
    assert f"({PREFIX}gang-lost-slot is release)" in told[0]
    await started_anew(slurm, kube, job_id)


async def test_annotation_has_the_pod_wait_where_the_site_would_release_all(slurm, kube):
    service = Service(slurm, kube, lost_slot="release")
    job_id = await without_a_node(slurm, kube, service)
    uid = again(kube, 1, gang_lost_slot="wait")
    await asyncio.sleep(SOON)
    said = kube.condition_of(uid)
    assert said is not None
    assert said.reason == "GangSlotLost"
    assert f"({PREFIX}gang-lost-slot is wait)" in said.message
    assert kube.deleted == ["uid-1"]
    assert slurm.live(job_id)
    await service.kill()


async def test_pod_that_waits_is_annotated_and_the_gang_is_released(slurm, kube, service):
    await without_a_node(slurm, kube, service)
    uid = again(kube, 1)
    await asyncio.sleep(SOON)
    assert kube.deleted == ["uid-1"]
    kube.edit(uid, {f"{PREFIX}gang-lost-slot": "release"})
    await asyncio.sleep(SOON)
    assert kube.deleted == ["uid-1", "uid-0"]


@pytest.mark.parametrize(
    ("rule", "value", "released"),
    [
        ("defaults: {gang-lost-slot: release}", "", True),
        ("defaults: {gang-lost-slot: release}", "wait", False),
        ("forced: {gang-lost-slot: wait}", "release", False),
    ],
)
async def test_policy_says_for_a_namespace_what_happens(
    slurm, kube, service, rule, value, released
):
    service.rulebook.take(policy(f"rules: [{{name: r, namespaces: [ns], {rule}}}]"))
    await without_a_node(slurm, kube, service)
    again(kube, 1, **({"gang_lost_slot": value} if value else {}))
    await asyncio.sleep(SOON)
    assert kube.deleted == (["uid-1", "uid-0"] if released else ["uid-1"])


async def test_pods_that_say_different_things_start_together(slurm, kube, service):
    """They all ask for the same job."""
    service.start()
    again(kube, 0)
    again(kube, 1, gang_lost_slot="release")
    await asyncio.sleep(SOON)
    assert [it.nodes for it in slurm.submissions.values()] == [2]


async def test_pods_that_disagree_release_nobody(slurm, kube):
    """Two pods of three come again, and only one of them wants all others to end."""
    slurm.add_node("n3")
    kube.set_node("n3")
    service = Service(slurm, kube, lost_slot="release")
    service.start()
    for rank in range(3):
        again(kube, rank, gang_size="3")
    await asyncio.sleep(2)
    (job_id,) = slurm.submissions
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1", "n2", "n3"), start_time=1)
    await asyncio.sleep(5)
    slurm.change(job_id, BaseState.RUNNING, nodes=("n1",))
    await asyncio.sleep(SOON)
    for rank, value in ((1, "wait"), (2, "release")):
        kube.end_containers(f"anew-{rank}")
        said = {f"{PREFIX}gang": "train", f"{PREFIX}gang-size": "3"}
        said[f"{PREFIX}gang-lost-slot"] = value
        kube.create(f"third-{rank}", name=f"train-{rank}", annotations=said)
    await asyncio.sleep(SOON)
    assert kube.deleted == ["anew-1", "anew-2"]
    told = kube.condition_of("third-2")
    assert told is not None
    assert f"({PREFIX}gang-lost-slot is wait)" in told.message
    await service.kill()


async def test_nobody_is_released_for_a_pod_that_cannot_be_served(slurm, kube):
    service = Service(slurm, kube, lost_slot="release")
    await without_a_node(slurm, kube, service)
    uid = again(kube, 1, gang_lost_slot="relaese")
    await asyncio.sleep(SOON)
    assert kube.deleted == ["uid-1"]
    said = kube.condition_of(uid)
    assert said is not None
    assert f"{PREFIX}gang-lost-slot is 'relaese'; expected wait or release" in said.message
    kube.edit(uid, {f"{PREFIX}gang-lost-slot": "release"})
    await asyncio.sleep(SOON)
    assert kube.deleted == ["uid-1", "uid-0"]
    await service.kill()
