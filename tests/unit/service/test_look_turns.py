"""Namespaces take turns at the looks at jobs: however many one has, those of others are seen."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

import pytest

from annotations import PREFIX
from scheduler.slurm.look import look
from scheduler.slurm.look_turns import LookTurns
from scheduler.slurm.pulse import due
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState, SlurmClient
from tests.unit.service.test_pulse import PulsedUnits
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = [pytest.mark.looptime, pytest.mark.timeout(120)]
CROWD = 240
ALIVE = 60
REPLACED_PER_SECOND = 8
REASON_AGE_SECONDS = 10.0
# With two namespaces, every second look is the other one's. Slurm's answers take a moment, too.
TURN_SECONDS = 2.0


@pytest.fixture
async def pulsed(slurm: TinySlurm) -> PulsedUnits:
    return PulsedUnits(slurm)


async def until(happened: Callable[[], bool], *, most: float) -> None:
    """Raises TimeoutError if it takes more seconds."""
    async with asyncio.timeout(most):
        while not happened():  # noqa: ASYNC110 - the model of Slurm tells nobody
            await asyncio.sleep(0.1)


def crowd(pulsed: PulsedUnits, *, waiting: bool = True) -> list[Unit]:
    return [pulsed.add(namespace="a", waiting=waiting) for _ in range(CROWD)]


async def replaced_without_end(
    create: Callable[[int], None], delete: Callable[[int], None]
) -> None:
    """Of the pods of one namespace, the oldest makes room for another one again and again."""
    alive, number = deque[int](), 0
    while True:
        create(number)
        alive.append(number)
        if len(alive) > ALIVE:
            delete(alive.popleft())
        number += 1
        await asyncio.sleep(1 / REPLACED_PER_SECOND)


async def test_edit_waits_for_no_first_look_at_the_pods_of_another_namespace(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    for number in range(CROWD):
        kube.create(f"a-{number}", name=f"a-{number}", namespace="a")
    service.start()
    await until(lambda: len(slurm.jobs) == CROWD, most=10.0)
    kube.create("uid-b", namespace="b", annotations={PREFIX + "comment": "before"})
    await asyncio.sleep(5.0)
    kube.edit("uid-b", {PREFIX + "comment": "after"})
    job_id = service.job_of("uid-b")
    assert job_id is not None
    await until(lambda: slurm.jobs[job_id].comment == "after", most=TURN_SECONDS)


async def test_node_that_suits_again_is_allowed_though_pods_come_and_go_elsewhere(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.set_node("n2", labels={"zone": "z"})
    service.start()
    kube.create("uid-b", namespace="b", selector={"zone": "z"})
    await asyncio.sleep(5.0)
    job_id = service.job_of("uid-b")
    assert job_id is not None
    assert slurm.jobs[job_id].excluded_nodes == ("n1",)
    others = asyncio.create_task(
        replaced_without_end(
            lambda it: kube.create(f"a-{it}", name=f"a-{it}", namespace="a"),
            lambda it: kube.delete(f"a-{it}"),
        )
    )
    await asyncio.sleep(2 * REASON_AGE_SECONDS)
    kube.set_node("n1", labels={"zone": "z"})
    await until(
        lambda: not slurm.jobs[job_id].excluded_nodes, most=REASON_AGE_SECONDS + TURN_SECONDS
    )
    others.cancel()


async def test_pods_that_come_and_go_keep_no_waiting_job_of_another_namespace_from_its_looks(
    pulsed: PulsedUnits,
) -> None:
    """A job that was never looked at comes first in its own namespace only."""
    unit, keys = pulsed.add(namespace="b"), dict[int, str]()
    assert unit.job is not None

    def create(number: int) -> None:
        keys[number] = pulsed.add(namespace="a").key

    ages = list[float]()
    others = asyncio.create_task(
        replaced_without_end(create, lambda it: pulsed.units.remove(keys.pop(it)))
    )
    async with pulsed.running():
        for _ in range(60):
            await asyncio.sleep(1.0)
            ages.append(asyncio.get_running_loop().time() - unit.job.looked_at)
    others.cancel()
    assert max(ages) <= REASON_AGE_SECONDS + TURN_SECONDS


async def test_record_is_read_anew_after_an_outage_before_the_many_of_another_namespace(
    slurm: TinySlurm, pulsed: PulsedUnits
) -> None:
    units = [*crowd(pulsed, waiting=False), pulsed.add(namespace="b", waiting=False)]
    clock = asyncio.get_running_loop().time
    for unit in units:  # so the last look is at that of b
        assert unit.job is not None
        slurm.change(unit.job.job_id, BaseState.RUNNING, nodes=("n1",))
        await look(cast("SlurmClient", slurm), unit, unit.job, clock=clock)
    for unit in units:
        assert unit.job is not None
        unit.job.doubt(clock())
    job = units[-1].job
    assert job is not None
    async with pulsed.running():
        await until(lambda: job.proven, most=TURN_SECONDS)


async def test_nodes_that_are_made_ready_for_one_namespace_delay_no_look_of_another(
    slurm: TinySlurm, pulsed: PulsedUnits
) -> None:
    units = [*crowd(pulsed), pulsed.add(namespace="b")]
    for unit in units:
        assert unit.job is not None
        slurm.start(unit.job.job_id, "CONFIGURING", node="n1")
    job = units[-1].job
    assert job is not None
    async with pulsed.running():
        await until(lambda: job.looked_at > 0, most=2 * TURN_SECONDS)


async def test_slow_slurm_that_answers_one_look_a_pulse_serves_each_namespace_in_turn(
    slurm: TinySlurm, pulsed: PulsedUnits
) -> None:
    """A look for which no time was left is no turn."""
    slurm.seconds["job"] = 1.5
    for _ in range(3):
        for namespace in "abcdef":
            pulsed.add(namespace=namespace)
    async with pulsed.running():
        await until(lambda: slurm.calls["job"] >= 12, most=60.0)
    looked = [ids[0] for operation, ids in slurm.asked if operation == "job"][:12]
    found = ["".join(it.namespace for it in pulsed.units.by_job(job_id)) for job_id in looked]
    assert found == [*"abcdef", *"abcdef"]


def waiting(*namespaces: str) -> Units:
    units = Units()
    for number, namespace in enumerate(namespaces):
        job = Placeholder(number + 1, looked_at=100.0 - number)
        units.add(Unit(f"uid-{number}", namespace, f"p-{number}", seen_at=0.0, job=job))
    return units


def always(_unit: Unit, _job: Placeholder, _now: float) -> bool:
    return True


async def chosen(units: Units, turns: LookTurns, *, most: int) -> list[str]:
    """The keys of those that are due, and then looked at."""
    units_due = await due(units, always, most=most, turns=turns, now=200.0)
    return [unit.key.removeprefix("uid-") for unit in turns.taken(units_due)]


async def test_each_namespace_has_its_oldest_look_repeated_before_any_has_a_second() -> None:
    units, turns = waiting("a", "a", "a", "b", "b", "c"), LookTurns()
    assert await chosen(units, turns, most=5) == ["2", "4", "5", "1", "3"]
    assert await chosen(units, turns, most=2) == ["5", "2"], "a and b had the last turns"
    assert await chosen(units, turns, most=0) == []


async def test_new_namespace_comes_last_and_one_without_pods_is_forgotten() -> None:
    units, turns = waiting("a", "b"), LookTurns()
    assert await chosen(units, turns, most=1) == ["0"]
    units.remove("uid-0")
    assert await chosen(units, turns, most=0) == []
    units.add(Unit("uid-9", "a", "p-9", seen_at=0.0, job=Placeholder(9)))
    assert await chosen(units, turns, most=1) == ["1"], "who deletes his pods does not come first"
    for number in range(1000):
        key = f"uid-{number + 10}"
        units.add(Unit(key, f"n-{number}", "p", seen_at=0.0, job=Placeholder(number + 10)))
        await chosen(units, turns, most=1)
        units.remove(key)
    await chosen(units, turns, most=1)
    assert len(turns) == len(units.namespaces) == 2


async def test_search_ends_as_soon_as_enough_namespaces_have_a_job_that_needs_a_look() -> None:
    units, searched = waiting(*(f"n-{number % 1000}" for number in range(10_000))), list[str]()

    def needs(unit: Unit, _job: Placeholder, _now: float) -> bool:
        searched.append(unit.key)
        return True

    assert len(await due(units, needs, most=4, turns=LookTurns(), now=0.0)) == 4
    assert len(searched) <= 2000
