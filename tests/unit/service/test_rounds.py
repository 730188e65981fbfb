"""Each unit that a change concerns gets a pass, however many there are, and other work goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest

from scheduler.observe.wake import WakeCause
from scheduler.service.rounds import Rounds
from scheduler.state.units import Placeholder, Unit, Units

pytestmark = pytest.mark.looptime
MANY = 10_000


def _without_job(unit: Unit) -> bool:
    return unit.job is None


def _any(_unit: Unit) -> bool:
    return True


def _is_first(unit: Unit) -> bool:
    return unit.key == "u0"


class Hall:
    """Many units, of which each second has a job, and what rounds wake."""

    def __init__(self, count: int = MANY) -> None:
        self.units = Units()
        for number in range(count):
            job = Placeholder(number + 1) if number % 2 else None
            namespace = f"ns-{number % 10}"
            self.units.add(Unit(f"u{number}", namespace, f"p{number}", seen_at=0.0, job=job))
        self.woken: list[tuple[str, WakeCause]] = []
        self.visited: list[str] = []
        self.rounds = Rounds(
            self.units, wake=lambda *it: self.woken.append(it), wake_pods=self._visit
        )

    async def _visit(self, namespace: str) -> None:
        await asyncio.sleep(0.01)
        self.visited.append(namespace)


@pytest.fixture
async def hall() -> AsyncIterator[Hall]:
    hall = Hall()
    running = asyncio.create_task(hall.rounds.run())
    yield hall
    running.cancel()


async def test_units_that_a_change_concerns_are_woken(hall: Hall) -> None:
    hall.rounds.ask(_without_job, WakeCause.NODES)
    await asyncio.sleep(1)
    assert hall.woken == [(f"u{number}", WakeCause.NODES) for number in range(0, MANY, 2)]
    hall.woken.clear()
    await asyncio.sleep(60)
    assert not hall.woken, "nothing has changed since"


async def test_namespaces_are_visited_once_each_time_that_is_asked_for(hall: Hall) -> None:
    for _ in range(2):
        hall.rounds.visit("ns-1")
        hall.rounds.visit("ns-2")
    hall.rounds.visit("ns-1")
    await asyncio.sleep(1)
    assert hall.visited == ["ns-1", "ns-2"]
    hall.rounds.visit("ns-2")
    await asyncio.sleep(1)
    assert hall.visited == ["ns-1", "ns-2", "ns-2"]
    assert not hall.woken


async def test_two_changes_of_different_kinds_share_a_round(hall: Hall) -> None:
    hall.rounds.ask(_without_job, WakeCause.NODES)
    hall.rounds.ask(_any, WakeCause.KILL_WAIT)
    await asyncio.sleep(1)
    causes = [cause for _, cause in hall.woken]
    assert causes.count(WakeCause.NODES) == MANY // 2
    assert causes.count(WakeCause.KILL_WAIT) == MANY


async def test_change_in_some_namespaces_concerns_these_alone(hall: Hall) -> None:
    for namespace in ("ns-1", "ns-4"):
        hall.rounds.ask(_any, WakeCause.POLICY, namespaces=(namespace,))
    await asyncio.sleep(1)
    assert {int(key[1:]) % 10 for key, _ in hall.woken} == {1, 4}
    assert len(hall.woken) == MANY // 5
    hall.woken.clear()
    hall.rounds.ask(_any, WakeCause.POLICY)
    hall.rounds.ask(_any, WakeCause.POLICY, namespaces=("ns-1",))
    await asyncio.sleep(15)
    assert len(hall.woken) == MANY, "it was asked for all namespaces, too"


async def test_round_leaves_turns_to_others(hall: Hall) -> None:
    hall.rounds.ask(_any, WakeCause.NODES)
    seen = [0]
    while seen[-1] < MANY:
        await asyncio.sleep(0)
        seen.append(len(hall.woken))
    assert max(after - before for before, after in pairwise(seen)) <= 1000


async def test_thousands_of_changes_are_a_few_rounds(hall: Hall) -> None:
    for _ in range(5000):
        hall.rounds.ask(_without_job, WakeCause.NODES)
        await asyncio.sleep(0.001)  # five seconds in all
    await asyncio.sleep(3)
    assert MANY // 2 <= len(hall.woken) <= 4 * MANY // 2


async def test_changes_that_concern_few_units_are_not_held_back(hall: Hall) -> None:
    for _ in range(50):
        hall.rounds.ask(_is_first, WakeCause.NODES)
        await asyncio.sleep(0.1)
    assert len(hall.woken) >= 45


async def test_changes_of_one_namespace_delay_no_other(hall: Hall) -> None:
    for number in range(50_000):
        hall.units.add(Unit(f"crowd-{number}", "crowd", f"c{number}", seen_at=0.0))
    for _ in range(10):
        hall.rounds.ask(_any, WakeCause.NODES, namespaces=("crowd",))
        await asyncio.sleep(3)
    assert len(hall.woken) == 50_000, "150 s of rest"
    hall.rounds.ask(_any, WakeCause.NODES, namespaces=("ns-1", "crowd"))
    await asyncio.sleep(1)
    assert len(hall.woken) == 50_000 + MANY // 10
    await asyncio.sleep(150)
    assert len(hall.woken) == 100_000 + MANY // 10, "what was put off is not lost"


async def test_passes_leave_most_of_the_time_to_others_however_often_something_changes(
    hall: Hall,
) -> None:
    for _ in range(60):
        hall.rounds.ask(_any, WakeCause.NODES)
        await asyncio.sleep(0.5)  # half a minute in all
    passes_seconds = 0.15e-3 * len(hall.woken)
    assert passes_seconds < 30 / 3


async def test_change_during_a_round_starts_another(hall: Hall) -> None:
    hall.rounds.ask(_any, WakeCause.NODES)
    for _ in range(5):  # the first 1000 are woken by then, and not all
        await asyncio.sleep(0)
    assert 0 < len(hall.woken) < MANY
    hall.rounds.ask(_any, WakeCause.NODES)
    await asyncio.sleep(15)
    assert len(hall.woken) == 2 * MANY
