"""Jobs whose start Slurm's hooks tell: how soon it is seen that their nodes are ready, and what
that costs Slurm.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import pytest

from scheduler.observe.wake import WakeCause
from scheduler.slurm.pulse_pace import REQUESTS_PER_SECOND, SAVED_REQUESTS
from scheduler.slurm.starts import Starts
from scheduler.state.units import Unit
from slurmapi import BaseState, JobState, SlurmBusy
from tests.unit.service.test_pulse import FAST, IDLE, PulsedUnits
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
# How long Slurm takes, after the guard's answer, until the nodes are ready.
CLEARS: Final = 0.02
RUNNING: Final = JobState(BaseState.RUNNING)


class Hooked:
    """Units with a pulse, and hooks that tell their starts."""

    def __init__(self, slurm: TinySlurm) -> None:
        self.slurm, self.pulsed = slurm, PulsedUnits(slurm)
        pulse, clock = self.pulsed.pulse, asyncio.get_running_loop().time
        self.starts = Starts(
            self.pulsed.units,
            look_now=partial(pulse.look_now, cause=WakeCause.HOOK),
            pace=pulse.pace,
            allocated=pulse.allocated,
            leads=lambda: True,
            clock=clock,
        )

    async def start(self, unit: Unit, *, node: str = "n1", clears: float = CLEARS) -> None:
        """Slurm starts the unit's job: its hook asks, gets its answer, and returns."""
        job_id = _id(unit)
        self.slurm.start(job_id, "CONFIGURING", node=node)
        self.starts.begins(job_id)
        await asyncio.sleep(0.01)
        self.starts.answered(job_id)
        await asyncio.sleep(clears)
        self.slurm.change(job_id, BaseState.RUNNING)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.starts.run())
        async with self.pulsed.running():
            await asyncio.sleep(1.1)  # between two pulses
            yield
            assert not task.done()
            task.cancel()

    def states_asked(self) -> int:
        return self.slurm.calls["states"]


def _id(unit: Unit) -> int:
    assert unit.job is not None
    return unit.job.job_id


def state(unit: Unit) -> JobState | None:
    assert unit.job is not None
    return unit.job.state


@pytest.fixture
async def hooked(slurm: TinySlurm) -> Hooked:
    return Hooked(slurm)


async def test_node_is_seen_to_be_ready_soon_after_the_hook_has_its_answer(hooked):
    unit = hooked.pulsed.add()
    async with hooked.running():
        await hooked.start(unit)
        await asyncio.sleep(0.01)
        assert state(unit) == RUNNING


async def test_slow_hook_is_asked_about_for_a_second_and_then_left_to_the_pulse(hooked):
    unit = hooked.pulsed.add()
    async with hooked.running():
        before = hooked.states_asked()
        await hooked.start(unit, clears=10.0)
        asked = hooked.states_asked() - before
        assert asked <= SAVED_REQUESTS + 1 + 10 / FAST + 1
        await asyncio.sleep(IDLE + 0.1)
        assert state(unit) == RUNNING


async def test_jobs_that_the_guard_asked_about_are_asked_about_together(hooked):
    """A pod is bound only if Slurm has said since that the others on the node hold their place."""
    neighbour, unit = hooked.pulsed.add(waiting=False), hooked.pulsed.add()
    others = [hooked.pulsed.add(waiting=False) for _ in range(50)]
    hooked.slurm.start(_id(neighbour), node="n1")
    async with hooked.running():
        job_id = _id(unit)
        hooked.slurm.start(job_id, "CONFIGURING", node="n1")
        hooked.starts.begins(job_id)
        assert hooked.starts.with_starting([_id(neighbour)]) == [_id(neighbour)]
        hooked.starts.answered(job_id)
        hooked.slurm.change(job_id, BaseState.RUNNING)
        await asyncio.sleep(0.03)
        assert ("states", (_id(neighbour), job_id)) in hooked.slurm.asked
        assert len(others) == 50
        assert unit.job is not None
        assert neighbour.job is not None
        assert neighbour.job.ran_beside(unit.job)


async def test_question_about_others_answers_for_starting_jobs_as_well(hooked):
    first, second = hooked.pulsed.add(), hooked.pulsed.add()
    async with hooked.running():
        for unit in (first, second):
            hooked.starts.begins(_id(unit))
        hooked.starts.answered(_id(first))
        assert hooked.starts.with_starting([]) == [_id(first)]


@pytest.mark.parametrize("claimed", [True, False], ids=["only claimed", "unknown"])
async def test_start_of_a_job_that_is_not_ours_costs_nothing(hooked, claimed):
    hooked.pulsed.add(waiting=False)
    unit = hooked.pulsed.add(waiting=False, claimed=True)
    async with hooked.running():
        before = hooked.states_asked()
        for _ in range(20):
            job_id = _id(unit) if claimed else 4711
            hooked.starts.begins(job_id)
            hooked.starts.answered(job_id)
            await asyncio.sleep(0.02)
        assert hooked.states_asked() <= before + 1


async def test_starts_without_end_cost_slurm_eight_requests_a_second(hooked):
    unit, seconds = hooked.pulsed.add(), 60
    async with hooked.running():
        before = hooked.states_asked()
        hooked.slurm.start(_id(unit), "CONFIGURING", node="n1")
        for _ in range(seconds * 50):
            hooked.starts.begins(_id(unit))
            hooked.starts.answered(_id(unit))
            await asyncio.sleep(0.02)
        most = (REQUESTS_PER_SECOND + 1 / FAST) * seconds + SAVED_REQUESTS
        assert hooked.states_asked() - before <= most


async def test_slurm_that_does_not_answer_is_left_to_the_pulse(hooked):
    unit = hooked.pulsed.add()
    async with hooked.running():
        before = hooked.states_asked()
        hooked.slurm.fail["states"].extend([SlurmBusy("slurmctld is away")] * 3)
        await hooked.start(unit, clears=0.5)
        assert hooked.states_asked() - before <= 3


async def test_slow_slurm_is_asked_no_more_often_for_starts(hooked):
    unit = hooked.pulsed.add()
    async with hooked.running():
        hooked.slurm.start(_id(unit), "CONFIGURING", node="n1")
        hooked.slurm.seconds["states"] = 2.0
        before = hooked.states_asked()
        for _ in range(6000):
            hooked.starts.begins(_id(unit))
            hooked.starts.answered(_id(unit))
            await asyncio.sleep(0.01)
        assert hooked.states_asked() - before <= 60 / (2.0 + 4 * 2.0) + 60 / (2.0 + 2 * 2.0) + 2


async def test_waiting_pods_need_no_quick_pulses_where_hooks_tell_starts(hooked):
    unit, waits = hooked.pulsed.add(), hooked.pulsed.add()
    async with hooked.running():
        await hooked.start(unit)
        await asyncio.sleep(1.0)
        before = hooked.states_asked()
        await asyncio.sleep(20.0)
        assert hooked.states_asked() - before <= 20 / IDLE + 1
        hooked.slurm.start(_id(waits), node="n2")  # the hook has failed
        await asyncio.sleep(IDLE + 0.1)
        assert state(waits) == RUNNING
        hooked.pulsed.add()
        await asyncio.sleep(IDLE)
        before = hooked.states_asked()
        await asyncio.sleep(10.0)
        assert hooked.states_asked() - before >= 10 / FAST - 2


async def test_pod_is_bound_soon_beside_another_one(slurm: TinySlurm, kube: TinyKube) -> None:
    service = Service(slurm, kube)
    service.start()
    kube.create("first", name="first")
    await asyncio.sleep(1.0)
    slurm.start(next(iter(slurm.jobs)), node="n1")
    await asyncio.sleep(5.0)
    assert kube.bindings == [("first", "n1")]
    kube.create("second", name="second")
    await asyncio.sleep(5.0)
    job_id = max(slurm.jobs)
    slurm.start(job_id, "CONFIGURING", node="n1")
    service.starts.begins(job_id)
    asked = service.starts.with_starting([min(slurm.jobs)])
    await service.pulse.look_now(asked, cause=WakeCause.HOOK)
    service.starts.answered(job_id)
    await asyncio.sleep(CLEARS)
    slurm.change(job_id, BaseState.RUNNING)
    await asyncio.sleep(0.05)
    assert kube.bindings == [("first", "n1"), ("second", "n1")]
    service.unharmed()
    await service.kill()
