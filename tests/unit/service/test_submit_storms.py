"""Pods that are made and deleted without end, in virtual time: what a namespace costs Slurm."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import cast

import pytest

from scheduler.core.event_reasons import Reason
from scheduler.execute.submit_pace import NAMESPACE_SUBMITS, SubmitPace
from scheduler.execute.tell import Teller
from scheduler.observe.metrics import Metrics
from scheduler.state.units import Unit
from slurmapi import BaseState
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]
BURST, EACH_SECONDS = NAMESPACE_SUBMITS
BEYOND = 400


@dataclass
class SilentTeller:
    """What pods were told, of which nothing is written anywhere."""

    reasons: list[str] = field(default_factory=list)

    async def tell_waiting(self, _unit: Unit, reason: Reason, _message: str) -> None:
        self.reasons.append(reason)


class Churn:
    """Pods of one namespace, each made and soon deleted, and the submits that this brings about."""

    def __init__(self) -> None:
        self.now = 0.0
        self.teller = SilentTeller()
        self.metrics = Metrics()
        self.pace = SubmitPace(
            cast("Teller", self.teller), metrics=self.metrics, clock=lambda: self.now
        )
        self.submits = 0

    async def look(self, unit: Unit) -> float:
        """As a pass does; gives when the next one is wanted, 0 where the unit has submitted."""
        seconds = await self.pace.pause(unit)
        if seconds:
            return self.now + seconds
        self.pace.take(unit)
        self.submits += 1
        return 0.0

    async def play(self, *, seconds: float, per_second: float, lives: float) -> None:
        """So many pods a second for so long, each gone after a while."""
        number = 0
        begun = self.now
        alive: deque[tuple[float, Unit]] = deque()
        due: list[tuple[float, int, Unit]] = []
        while self.now < begun + seconds:
            self.now = begun + number / per_second
            number += 1
            unit = Unit(f"churn-{number}", "hog", f"churn-{number}", seen_at=self.now)
            alive.append((self.now + lives, unit))
            heappush(due, (self.now, number, unit))
            while alive and alive[0][0] <= self.now:
                gone = alive.popleft()[1]
                self.pace.forget(gone)
                gone.pods[0].seen.over = True
            while due and due[0][0] <= self.now:
                _, order, unit = heappop(due)
                again = 0.0 if unit.pods[0].seen.over else await self.look(unit)
                if again:
                    heappush(due, (again, order, unit))


async def test_burst_of_thousands_is_not_slowed() -> None:
    churn = Churn()
    await churn.play(seconds=1.0, per_second=BURST, lives=1e9)
    assert churn.submits >= BURST
    assert churn.teller.reasons == []


@pytest.mark.parametrize("lives", [1.0, 30.0, 300.0])
async def test_churn_without_end_has_a_pace(lives: float) -> None:
    churn = Churn()
    seconds = 600.0
    await churn.play(seconds=seconds, per_second=100.0, lives=lives)
    most = BURST + seconds / EACH_SECONDS + 1
    assert most / 2 <= churn.submits <= most
    assert churn.metrics.registry.get_sample_value("slurm_pod_scheduler_submits_held_total")
    unit = Unit("other", "other", "other", seen_at=churn.now)
    assert await churn.pace.pause(unit) == 0.0, "other namespaces do not wait"


async def test_pod_beyond_the_burst_is_told_its_turn_and_holds_up_no_other_and_no_ending(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    service.start()
    kube.create("hog", namespace="hog")
    await asyncio.sleep(1)
    former = Unit("former", "hog", "former", seen_at=0.0)
    for _ in range(BURST):
        service.submits.take(former)
    for number in range(BEYOND):
        kube.create(f"hog-{number}", name=f"hog-{number}", namespace="hog")
    await asyncio.sleep(1)
    kube.create("honest", name="honest", namespace="honest")
    slurm.start(1)
    await asyncio.sleep(1)
    assert not waits(service, "honest"), "other namespaces do not wait"
    await asyncio.sleep(3)
    last = f"hog-{BEYOND - 1}"
    condition = kube.condition_of(last)
    assert condition is not None
    assert condition.reason == "SubmittedTooOften"
    assert condition.message.startswith("Namespace hog submits too many Slurm jobs: after ")
    assert kube.bindings == [("hog", "n1")], "binds do not wait"
    slurm.end(1, BaseState.PREEMPTED)
    await asyncio.sleep(3.5)
    assert kube.deleted == ["hog"], "endings do not wait"
    for number in range(BEYOND // 2):
        if waits(service, f"hog-{number}"):
            kube.delete(f"hog-{number}")
    await asyncio.sleep(BEYOND * EACH_SECONDS)
    assert not any(waits(service, uid) for uid in kube.pods), "all had their turn"
    times = Counter(
        uid
        for uid, conditions in kube.patches
        for it in conditions
        if it.reason == condition.reason
    )
    assert max(times.values()) <= 2, "told once, and once more if its turn comes sooner"


def waits(service: Service, uid: str) -> bool:
    """Whether no job is known of that pod."""
    unit = service.units.get(uid)
    return unit is None or unit.job is None
