"""How a pod goes: its condition, the budget where the site wants it asked, and the deletion."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from msgspec.structs import replace

from scheduler.core.actions import Evict, Hurry
from scheduler.core.brake import BrakeLimits
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodStage
from scheduler.execute.ending_brake import EndingBrake
from scheduler.execute.evict import Evictor
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import Forbidden, KubeUnreachable, refused
from scheduler.kube.store import Joined
from scheduler.kube.wire import Pod
from scheduler.nodes.node_allocations import NodeAllocations
from scheduler.observe.metrics import Metrics
from scheduler.slurm.slurmctld import Slurmctld
from scheduler.state.units import Unit, Units
from slurmapi import SlurmClient
from tests.support import loop_turns
from tests.unit.core.things import pod
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"
EVICT = Evict(pod(PodStage.BOUND, uid=UID), Reason.PREEMPTED, "Slurm job 7 was preempted")


class Stage:
    """One evictor, one bound pod, and what its owner was told."""

    def __init__(self, kube: TinyKube, *, budget_seconds: float = 0.0) -> None:
        self.kube, self.unit = kube, Unit(UID, "ns", "train", seen_at=0.0)
        self.messages: list[str] = []
        self.metrics = Metrics()
        slurm, clock = cast("SlurmClient", TinySlurm()), asyncio.get_running_loop().time
        self.brake = EndingBrake(
            Slurmctld(slurm, failed_at=lambda: None, warn=lambda _reason, _text: None, clock=clock),
            allocations=NodeAllocations(slurm, clock=clock),
            limits=BrakeLimits(),
            units=Units(),
            pods=kube.store,
            key_of=str,
            tell=lambda _unit, _reason, message: self.messages.append(message),
            warn=lambda _reason, message: self.messages.append(message),
            metrics=self.metrics,
            clock=clock,
        )
        self.evictor = Evictor(
            cast("KubeApi", kube),
            brake=self.brake,
            budget_seconds=budget_seconds,
            tell=lambda _unit, _uid, _reason, message: self.messages.append(message),
            metrics=self.metrics,
            clock=asyncio.get_running_loop().time,
        )
        kube.create(UID, node="n1", phase="Running")

    async def until_deleted(self) -> float:
        began = asyncio.get_running_loop().time()
        while not self.kube.deleted:
            await asyncio.sleep(await self.evictor.evict(self.unit, [EVICT]))
            assert asyncio.get_running_loop().time() - began < 600
        return asyncio.get_running_loop().time() - began

    def counted(self) -> float:
        sample = "slurm_pod_scheduler_evictions_total"
        return self.metrics.registry.get_sample_value(sample, {"reason": "Preempted"}) or 0.0


async def test_pod_bears_its_condition_before_it_is_deleted(kube):
    stage = Stage(kube)
    marked: list[int] = []
    kube.on_delete = lambda _uid: marked.append(len(kube.patches))
    await stage.evictor.evict(stage.unit, [EVICT])
    assert marked == [1]
    (told,) = kube.patches[0][1]
    assert (told.type, told.reason, told.status) == ("DisruptionTarget", "Preempted", "True")
    assert kube.graces == [None]
    assert kube.evictions == 0
    assert stage.counted() == 1


async def test_pod_gets_the_time_that_is_left(kube):
    stage = Stage(kube)
    await stage.evictor.evict(stage.unit, [replace(EVICT, grace_seconds=7)])
    assert kube.graces == [7]


async def test_deletion_is_repeated_only_after_a_while(kube):
    stage = Stage(kube)
    await stage.evictor.evict(stage.unit, [EVICT])
    assert await stage.evictor.evict(stage.unit, [EVICT]) > 5
    assert kube.deleted == [UID]


async def test_pod_that_is_gone_is_not_deleted(kube):
    stage = Stage(kube)
    other = replace(EVICT, pod=replace(EVICT.pod, uid="another"))
    await stage.evictor.evict(stage.unit, [other])
    assert (kube.deleted, stage.messages, stage.counted()) == ([], [], 0)


async def test_budget_that_allows_it_lets_the_pod_go_at_once_with_our_condition(kube):
    stage = Stage(kube, budget_seconds=30)
    assert await stage.until_deleted() < 11
    assert (kube.evictions, kube.deleted) == (1, [UID])
    assert [patch[1][0].reason for patch in kube.patches] == ["Preempted", "Preempted"]
    assert stage.counted() == 1


async def test_budget_holds_a_pod_no_longer_than_the_site_allows(kube):
    stage = Stage(kube, budget_seconds=30)
    kube.budget_holds = True
    assert 30 <= await stage.until_deleted() < 42
    assert 10 <= kube.evictions <= 16
    assert len(kube.patches) == 1
    assert stage.messages == [
        "Slurm job 7 was preempted; a PodDisruptionBudget holds the pod, for 30 s at most",
        "Slurm job 7 was preempted; the pod is deleted",
    ]


async def test_budget_that_gives_way_is_noticed(kube):
    stage = Stage(kube, budget_seconds=300)
    kube.budget_holds = True
    for _ in range(3):
        await asyncio.sleep(await stage.evictor.evict(stage.unit, [EVICT]))
    kube.budget_holds = False
    assert await stage.until_deleted() < 13


async def test_failure_on_the_way_is_raised_and_not_taken_for_done(kube):
    stage = Stage(kube, budget_seconds=30)
    kube.fail["evict"].append(KubeUnreachable("refused"))
    with pytest.raises(KubeUnreachable):
        await stage.evictor.evict(stage.unit, [EVICT])
    await stage.until_deleted()
    assert kube.deleted == [UID]


async def test_pod_that_is_held_is_asked_about_no_more_often_than_every_two_seconds(kube):
    """Its unit may have passes for other reasons, such as edits."""
    stage = Stage(kube, budget_seconds=30)
    kube.budget_holds = True
    for _ in range(100):
        await stage.evictor.evict(stage.unit, [EVICT])
        await asyncio.sleep(0.1)
    assert kube.evictions <= 6
    assert len(kube.patches) == 1


@pytest.mark.parametrize("began", [0.0, 10.0, 1023.9])
async def test_hold_is_told_whenever_it_begins(kube, began):
    await asyncio.sleep(began)
    stage = Stage(kube, budget_seconds=30)
    kube.budget_holds = True
    await stage.evictor.evict(stage.unit, [EVICT])
    assert [it for it in stage.messages if "PodDisruptionBudget" in it]


async def test_pod_with_two_budgets_goes_when_the_site_says_so(kube):
    """The Eviction API answers 500 for such a pod, however often it is asked."""
    stage = Stage(kube, budget_seconds=30)
    two = "This pod has more than one PodDisruptionBudget, which is not supported"
    kube.fail["evict"].extend(refused(500, reason="InternalError", message=two) for _ in range(99))
    assert 30 <= await stage.until_deleted() < 42
    assert stage.messages == [
        "Slurm job 7 was preempted; the Eviction API refuses to end the pod (500 InternalError "
        f"{two}), which stays, for 30 s at most",
        "Slurm job 7 was preempted; the pod is deleted",
    ]


async def test_deletion_that_is_refused_is_told_once(kube):
    stage = Stage(kube)
    kube.fail["delete"].extend(refused(403, reason="Forbidden", message="kept") for _ in range(3))
    for _ in range(3):
        with pytest.raises(Forbidden):
            await stage.evictor.evict(stage.unit, [EVICT])
    assert stage.messages == [
        "Slurm job 7 was preempted; the API server refuses to delete the pod: 403 Forbidden kept. "
        "The scheduler tries again"
    ]
    await stage.until_deleted()


async def test_pod_of_a_gang_that_cannot_be_deleted_keeps_no_other(kube):
    stage = Stage(kube)
    uids = [f"uid-{number:02}" for number in range(40)]
    for uid in uids:
        kube.create(uid, name=uid, node="n1", phase="Running")
    delete = kube.delete_pod

    async def refusing(namespace, name, uid, **options):
        if uid in uids[:20]:
            raise refused(403, message="kept")
        return await delete(namespace, name, uid, **options)

    kube.delete_pod = refusing
    gang = [replace(EVICT, pod=pod(PodStage.BOUND, uid=uid)) for uid in uids]
    with pytest.raises(Forbidden):
        await stage.evictor.evict(stage.unit, gang)
    assert sorted(kube.deleted) == uids[20:]
    assert sum("refuses to delete" in it for it in stage.messages) == 20


async def test_refusal_to_hurry_a_pod_is_told_and_ends_nothing_else(kube):
    stage = Stage(kube)
    kube.fail["delete"].append(refused(403, message="kept"))
    hurry = Hurry(EVICT.pod, EVICT.reason, EVICT.message, grace_seconds=1)
    assert await stage.evictor.hurry_all(stage.unit, [hurry]) > 5
    assert "refuses to delete the pod: 403 kept" in stage.messages[0]


async def test_departing_pods_of_a_gang_are_hurried_together(kube):
    """One after the other took 100 s for 1024 pods, and Slurm's GraceTime was over."""
    stage = Stage(kube)
    uids = [f"uid-{number:02}" for number in range(32)]
    for uid in uids:
        kube.create(uid, name=uid, node="n1", phase="Running")
    kube.seconds["ns", "delete"] = 1.0
    gang = [Hurry(pod(PodStage.DEPARTING, uid=it), EVICT.reason, EVICT.message, 1) for it in uids]
    began = asyncio.get_running_loop().time()
    assert await stage.evictor.hurry_all(stage.unit, gang) > 5
    assert asyncio.get_running_loop().time() - began < 4
    assert sorted(kube.deleted) == uids


async def test_other_work_goes_on_while_many_pods_are_surveyed_once_for_all_who_ask(kube):
    stage = Stage(kube)
    for number in range(5000):
        kube.create(f"uid-{number:04}", name=f"uid-{number:04}")
    await asyncio.sleep(1)
    passes = 0

    class Counted(Joined[Pod]):
        def __iter__(self):
            nonlocal passes
            passes += 1
            return iter(kube.store)

    stage.brake._pods = Counted()
    async with loop_turns.beside() as turns:
        await asyncio.gather(*(stage.brake.seconds(stage.unit, EVICT) for _ in range(3)))
    assert passes == 1
    assert turns.count > 5
    await asyncio.sleep(1)
    await stage.brake.seconds(stage.unit, EVICT)
    assert passes == 2
