"""Pods of large gangs that are edited again and again: what it costs the event loop is bounded for
each namespace, and gangs of others do not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from annotations import PREFIX
from scheduler.facts.gather import LARGE_GANG, Gatherer
from scheduler.kube.wire import PodStatus
from scheduler.observe.wake import WakeCause
from scheduler.service.gang_pace import (
    COLLECTING_SECONDS_FOR_POD,
    SECONDS_FOR_POD,
    SECONDS_FOR_UNREAD_POD,
    GangPace,
)
from scheduler.state.units import Unit
from tests.unit.service.tiny_kube import TinyKube

pytestmark = pytest.mark.looptime
_SIZE = LARGE_GANG + 8
_GANGS = 12
_EDITS = 200
_SECONDS_BETWEEN = 0.005
_STORM_SECONDS = _EDITS * _SECONDS_BETWEEN
_COLLECTING_SECONDS = COLLECTING_SECONDS_FOR_POD * _SIZE


class Passes:
    """When units of each namespace had passes."""

    def __init__(self, facts: Callable[..., object]) -> None:
        self._facts = facts
        self.times: dict[str, list[float]] = {}

    @property
    def noted(self) -> Callable[..., object]:
        """What to put in the place of the method."""

        def method(gatherer: Gatherer, unit: Unit, *args: object) -> object:
            now = asyncio.get_running_loop().time()
            self.times.setdefault(unit.namespace, []).append(now)
            return self._facts(gatherer, unit, *args)

        return method


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    found = Passes(Gatherer.facts)
    monkeypatch.setattr(Gatherer, "facts", found.noted)
    return found


def waiting_gang(kube: TinyKube, name: str, namespace: str) -> None:
    """A gang that lacks a pod, so that it costs Slurm nothing."""
    said = {f"{PREFIX}gang": name, f"{PREFIX}gang-size": str(_SIZE + 1)}
    for rank in range(_SIZE):
        uid = f"{name}-{rank}"
        kube.create(uid, name=uid, namespace=namespace, annotations=said)


async def test_ended_gangs_of_a_namespace_share_a_pace(kube, service, passes):
    """Their pods stay because of a finalizer. A gang of which no pod can run has no unit, so each
    edit had it made and read anew: with 2048 pods, edits of one took 30 % of the loop.
    """
    service.start()
    for gang in range(_GANGS):
        waiting_gang(kube, f"g{gang}", "crowd")
        for rank in range(_SIZE):
            kube.report(f"g{gang}-{rank}", PodStatus(phase="Failed"))
    await asyncio.sleep(60)
    assert len(service.units) == 0
    passes.times.clear()
    for number in range(_EDITS):
        for gang in range(_GANGS):
            kube.edit(f"g{gang}-0", {f"{PREFIX}comment": f"c{number}"})
        await asyncio.sleep(_SECONDS_BETWEEN)
    taken_up = len(passes.times["crowd"]) * _SIZE * SECONDS_FOR_UNREAD_POD
    assert _STORM_SECONDS / 2 < taken_up <= _STORM_SECONDS + 0.2


async def test_large_gangs_of_a_namespace_share_a_pace_and_others_do_not_wait(
    kube, service, passes
):
    """Passes of 12 gangs of 1023 pods, of each of which a pod was edited twice a second, took 54 %
    of the loop.
    """
    service.start()
    for gang in range(_GANGS):
        waiting_gang(kube, f"g{gang}", "crowd")
    waiting_gang(kube, "calm", "calm")
    await asyncio.sleep(20)
    passes.times.clear()
    loop, edited_at = asyncio.get_running_loop(), 0.0
    for number in range(_EDITS):
        for gang in range(_GANGS):
            kube.edit(f"g{gang}-0", {f"{PREFIX}comment": f"c{number}"})
        if number == _EDITS // 2:
            kube.edit("calm-0", {f"{PREFIX}comment": "calm"})
            edited_at = loop.time()
        await asyncio.sleep(_SECONDS_BETWEEN)
    taken_up = len(passes.times["crowd"]) * _SIZE * SECONDS_FOR_POD
    assert _STORM_SECONDS / 2 < taken_up <= _STORM_SECONDS + 0.1
    (calm,) = passes.times["calm"]
    assert calm - edited_at <= _COLLECTING_SECONDS + 2 * kube.lag


async def test_change_that_comes_after_an_early_pass_is_not_lost(kube, service, passes):
    """A pass that begins for another reason ends the delay of that which is due."""
    service.start()
    waiting_gang(kube, "g", "ns")
    await asyncio.sleep(20)
    (unit,) = service.units
    passes.times.clear()
    kube.edit("g-0", {f"{PREFIX}comment": "first"})
    await asyncio.sleep(0.011)  # the watch has shown it, and the pass is not due yet
    assert not passes.times
    service.queue.add(unit.key, WakeCause.PULSE)
    await asyncio.sleep(0.001)
    assert len(passes.times["ns"]) == 1
    kube.edit("g-0", {f"{PREFIX}comment": "second"})
    await asyncio.sleep(0.1)
    assert len(passes.times["ns"]) == 2


def test_pass_waits_for_those_of_the_same_namespace_alone() -> None:
    pace = GangPace()
    assert pace.wait("a", "ns", pods=1000, now=0.0) == pytest.approx(0.5)
    assert pace.wait("a", "ns", pods=1000, now=0.2) == pytest.approx(0.3), "one pass for both"
    waits = [pace.wait(f"g{it}", "ns", pods=1000, now=0.2) for it in range(20)]
    assert waits[0] == pytest.approx(0.5)
    assert waits[-1] == pytest.approx(4.0), "each takes up 0.2 s"
    assert pace.wait("small", "ns", pods=40, now=0.2) == pytest.approx(4.008)
    assert pace.wait("ended", "ns", pods=1000, now=0.2, unread=True) == pytest.approx(4.408)
    assert pace.wait("b", "other", pods=40, now=0.2) == pytest.approx(0.02)


def test_passes_that_are_over_are_forgotten() -> None:
    pace = GangPace()
    for number in range(1000):
        pace.wait(f"a{number}", f"ns{number}", pods=100, now=0.0)
    pace.wait("b", "ns", pods=100, now=1000.0)
    assert len(pace) == 2
