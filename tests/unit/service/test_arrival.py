"""An answer that lay unread while the process got no CPU is as old as that; a slow one is new."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from scheduler.slurm.arrival import Arrival
from scheduler.slurm.look import look
from scheduler.slurm.ownership import TAG_SECONDS, own_job
from scheduler.state.units import Placeholder, Unit
from slurmapi import SlurmClient
from tests.unit.core.things import KEY, OURS
from tests.unit.core.things import tag as tag_of

pytestmark = pytest.mark.looptime
STALL = 3.0

Stall = Callable[[float], None]


@pytest.fixture
async def stall(monkeypatch) -> Stall:
    """Holds the loop up: when it goes on, all timers of that time are overdue."""
    loop = asyncio.get_running_loop()
    lost, time = 0.0, loop.time
    monkeypatch.setattr(loop, "time", lambda: time() + lost)

    def hold_up(seconds: float) -> None:
        nonlocal lost
        lost += seconds

    return hold_up


async def age_of_an_answer(*, stall: Stall, stalled_at: float, takes: float) -> float:
    """How old an answer counts that `takes` so many seconds, if the loop stalls meanwhile."""
    loop = asyncio.get_running_loop()
    loop.call_later(stalled_at, stall, STALL)
    with Arrival(loop.time) as arrival:
        await asyncio.sleep(takes)
        return loop.time() - arrival.earliest()


@pytest.mark.parametrize(
    ("stalled_at", "takes"),
    [(0.01, 0.02), (0.25, 0.27), (0.25, 0.35), (0.25, STALL)],
    ids=["before a tick", "between ticks", "beside a tick", "at the end of the stall"],
)
async def test_answer_that_may_have_come_during_a_stall_is_as_old_as_it(stall, stalled_at, takes):
    age = await age_of_an_answer(stall=stall, stalled_at=stalled_at, takes=takes)
    assert STALL - 0.2 <= age <= STALL + 0.2


@pytest.mark.parametrize("seconds", [0.0, 0.01, 1.0, 30.0])
async def test_answer_of_a_slow_slurm_is_new(seconds):
    loop = asyncio.get_running_loop()
    with Arrival(loop.time) as arrival:
        await asyncio.sleep(seconds)
        assert arrival.earliest() == loop.time()


async def test_answer_that_comes_when_the_stall_is_over_is_new(stall):
    assert await age_of_an_answer(stall=stall, stalled_at=0.25, takes=STALL + 1) == 0.0


async def test_short_delay_of_a_loaded_machine_makes_nothing_old(stall):
    loop = asyncio.get_running_loop()
    loop.call_later(0.05, stall, 0.4)
    with Arrival(loop.time) as arrival:
        await asyncio.sleep(0.06)
        assert arrival.earliest() == loop.time()


async def test_look_that_lay_unread_is_no_look_of_this_moment(slurm, stall):
    loop = asyncio.get_running_loop()
    slurm.seconds["job"] = 0.2
    job_id = slurm.add(admin_comment=tag_of())
    job = Placeholder(job_id)
    unit = Unit(KEY, "ns", "train", seen_at=0.0, job=job)
    asked = loop.time()
    loop.call_later(0.15, stall, STALL)
    await look(cast("SlurmClient", slurm), unit, job, clock=loop.time)
    assert asked <= job.record_at < asked + 0.2
    assert loop.time() >= asked + STALL


async def test_write_upon_a_tag_that_lay_unread_is_too_late(slurm, stall):
    loop = asyncio.get_running_loop()
    slurm.seconds["job"] = 0.2
    job_id = slurm.add(admin_comment=tag_of())
    unit = Unit(KEY, "ns", "train", seen_at=0.0)
    loop.call_later(0.15, stall, STALL)
    own = await own_job(cast("SlurmClient", slurm), job_id, unit=unit, owner=OURS)
    assert own is not None
    assert own.send_by < loop.time()
    again = await own_job(cast("SlurmClient", slurm), job_id, unit=unit, owner=OURS)
    assert again is not None
    assert again.send_by == loop.time() + TAG_SECONDS
