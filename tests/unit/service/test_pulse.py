"""The pulse: what it costs Slurm, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from scheduler.core.tagged import TaggedJob
from scheduler.observe.metrics import Metrics
from scheduler.observe.wake import WakeCause
from scheduler.slurm.look import look
from scheduler.slurm.pulse import Pulse
from scheduler.slurm.pulse_pace import CHUNK, REQUESTS_PER_SECOND, SAVED_REQUESTS
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import (
    BaseState,
    Job,
    JobState,
    SlurmBusy,
    SlurmClient,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmInvalid,
    SlurmRefused,
    SlurmUnreachable,
)
from tests.unit.service.tiny_slurm import TinySlurm, running_looks

pytestmark = pytest.mark.looptime
FAST = 0.25
IDLE = 2.0


class PulsedUnits:
    """Units that were added by hand, and a pulse over them."""

    def __init__(self, slurm: TinySlurm, *, idle_seconds: float = IDLE, leads: bool = True) -> None:
        self.slurm, self.units, self.changed = slurm, Units(), list[str]()
        self.causes: list[WakeCause] = []
        self.pulse = Pulse(
            cast("SlurmClient", slurm),
            units=self.units,
            on_change=self._changed,
            clock=asyncio.get_running_loop().time,
            fast_seconds=FAST,
            idle_seconds=idle_seconds,
            metrics=Metrics(),
            running_looks=running_looks(slurm),
            leads=lambda: leads,
        )

    def _changed(self, key: str, cause: WakeCause) -> None:
        self.changed.append(key)
        self.causes.append(cause)

    def add(
        self,
        *,
        waiting: bool = True,
        claimed: bool = False,
        young: bool = False,
        namespace: str = "ns",
    ) -> Unit:
        job_id = self.slurm.add()
        now = asyncio.get_running_loop().time()
        submitted_at = now + 0.001 if young else -60.0
        job = Placeholder(job_id, submitted_at=submitted_at, claimed=claimed)
        unit = Unit(f"uid-{job_id}", namespace, f"p-{job_id}", seen_at=0.0, job=job)
        unit.waiting = waiting
        return self.units.add(unit)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.pulse.run())
        try:
            yield
        finally:
            assert not task.done()
            task.cancel()


@pytest.fixture
async def pulsed(slurm: TinySlurm) -> PulsedUnits:
    return PulsedUnits(slurm)


def requests(slurm: TinySlurm) -> int:
    return slurm.calls.total()


async def requests_within(pulsed: PulsedUnits, seconds: float) -> int:
    before = requests(pulsed.slurm)
    async with pulsed.running():
        await asyncio.sleep(seconds)
    return requests(pulsed.slurm) - before


async def test_without_units_slurm_is_only_pinged(slurm, pulsed):
    async with pulsed.running():
        await asyncio.sleep(10)
    assert set(slurm.calls) == {"ping"}
    assert slurm.calls["ping"] <= 10 / IDLE + 1


@pytest.mark.parametrize("count", [1, 10, 900])
async def test_requests_do_not_grow_with_waiting_pods(pulsed, count):
    for _ in range(count):
        pulsed.add()
    assert await requests_within(pulsed, 20) <= 20 * (1 / FAST + 4) + 8


async def test_thousands_are_asked_for_no_faster(pulsed, slurm):
    """The client asks for 1000 ids a request: ten requests a pulse, at a bounded rate."""
    for _ in range(10_000):
        pulsed.add()
    async with pulsed.running():
        await asyncio.sleep(20)
    assert slurm.calls["states"] <= 20 * 8 / 10 + 2


async def test_two_kinds_of_jobs_above_a_thousand_cost_no_more_than_eight_requests_a_second(
    slurm, pulsed
):
    for _ in range(1100):
        pulsed.add()
    for _ in range(1100):
        slurm.start(pulsed.add(waiting=False).job.job_id, node="n1")
    slurm.seconds["states"] = 0.0
    async with pulsed.running():
        await asyncio.sleep(1)
        slurm.asked.clear()
        await asyncio.sleep(20)
    requests = [math.ceil(len(ids) / CHUNK) for name, ids in slurm.asked if name == "states"]
    assert len(requests) > 40
    assert sum(requests) <= 20 * REQUESTS_PER_SECOND + 3


async def test_pulse_is_slow_while_no_pod_waits(slurm, pulsed):
    pulsed.add(waiting=False).job = None
    held = pulsed.add(waiting=False)
    slurm.start(held.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(20)
    assert slurm.calls["states"] <= 20 / IDLE + 1


@pytest.mark.parametrize(("count", "seconds"), [(250, 0.75), (251, 2.0)])
async def test_idle_pulse_of_many_jobs_comes_more_rarely(slurm, count, seconds):
    pulsed = PulsedUnits(slurm, idle_seconds=0.75)
    for _ in range(count):
        pulsed.add(waiting=False)
    for job_id in pulsed.units.job_ids():
        slurm.start(job_id, node="n1")
    async with pulsed.running():
        await asyncio.sleep(30)
    assert 30 / seconds - 2 <= slurm.calls["states"] <= 30 / seconds + 1


async def states_within(pulsed: PulsedUnits, seconds: float) -> int:
    before = pulsed.slurm.calls["states"]
    await asyncio.sleep(seconds)
    return pulsed.slurm.calls["states"] - before


async def test_job_that_was_just_submitted_is_asked_for_often_until_it_starts(slurm, pulsed):
    unit = pulsed.add(young=True)
    async with pulsed.running():
        assert await states_within(pulsed, 1) >= 15
        slurm.start(unit.job.job_id)
        await asyncio.sleep(FAST)
        assert await states_within(pulsed, 1) <= 1 / FAST + 1


async def test_job_that_does_not_start_is_asked_for_often_for_some_seconds_only(slurm, pulsed):
    pulsed.add(young=True)
    async with pulsed.running():
        await asyncio.sleep(4.5)
        assert await states_within(pulsed, 10) <= 10 / FAST + 1


async def test_pulse_sees_within_some_milliseconds_that_a_job_is_made_ready(slurm, pulsed):
    unit = pulsed.add()
    async with pulsed.running():
        await asyncio.sleep(1)
        slurm.start(unit.job.job_id, "CONFIGURING")
        await asyncio.sleep(FAST + 0.04)
        slurm.change(unit.job.job_id, BaseState.RUNNING)
        await asyncio.sleep(0.02)
        assert unit.job.state == JobState(BaseState.RUNNING)


async def test_job_that_is_made_ready_for_long_is_not_asked_for_often(slurm, pulsed):
    unit = pulsed.add()
    slurm.start(unit.job.job_id, "CONFIGURING")
    async with pulsed.running():
        await asyncio.sleep(1)
        assert await states_within(pulsed, 10) <= 10 / FAST + 1


def looked_at(slurm: TinySlurm, unit: Unit) -> int:
    assert unit.job is not None
    return slurm.asked.count(("job", (unit.job.job_id,)))


async def test_crowd_that_is_made_ready_does_not_hold_up_looks_at_pending_jobs(slurm, pulsed):
    for _ in range(100):
        starting = pulsed.add()
        slurm.start(starting.job.job_id, "CONFIGURING", node="n1")
    pending = pulsed.add()
    async with pulsed.running():
        await asyncio.sleep(25)
        assert looked_at(slurm, pending) >= 2


async def test_look_at_a_job_that_is_made_ready_is_repeated_until_it_shows_its_nodes(slurm, pulsed):
    unit = pulsed.add()
    slurm.start(unit.job.job_id, "CONFIGURING", node="n1")
    slurm.fail["job"].extend(SlurmUnreachable("connection refused") for _ in range(2))
    async with pulsed.running():
        await asyncio.sleep(30)
        assert unit.job.record is not None
        assert looked_at(slurm, unit) == 3


async def test_job_that_is_made_ready_on_another_node_after_a_requeue_is_looked_at(slurm, pulsed):
    unit = pulsed.add()
    slurm.start(unit.job.job_id, "CONFIGURING", node="n1")
    async with pulsed.running():
        await asyncio.sleep(5)
        slurm.requeue(unit.job.job_id)
        await asyncio.sleep(1)
        slurm.start(unit.job.job_id, "CONFIGURING", node="n2")
        await asyncio.sleep(5)
        assert unit.job.record.nodes == ("n2",)


async def test_job_runs_for_as_long_as_its_nodes_are_ready(slurm, pulsed):
    """Nodes may boot for minutes, and what must happen within a minute of the start cannot yet."""
    unit = pulsed.add()
    slurm.start(unit.job.job_id, "CONFIGURING", node="n1")
    async with pulsed.running():
        await asyncio.sleep(5)
        seen_at = unit.job.running_since
        assert seen_at
        await asyncio.sleep(90)
        assert unit.job.running_since == seen_at
        slurm.change(unit.job.job_id, BaseState.RUNNING)
        await asyncio.sleep(2)
        assert unit.job.running_since >= seen_at + 90


@pytest.mark.parametrize(("count", "quick"), [(250, True), (251, False)])
async def test_quick_pulses_are_for_few_jobs(slurm, pulsed, count, quick):
    for _ in range(count):
        pulsed.add(young=True)
    async with pulsed.running():
        assert (await states_within(pulsed, 1) > 1 / FAST + 1) == quick


async def test_job_that_a_pod_only_claims_makes_no_pulse_quick(slurm, pulsed):
    unit = pulsed.add(claimed=True, young=True)
    slurm.start(unit.job.job_id, "CONFIGURING")
    async with pulsed.running():
        assert await states_within(pulsed, 2) <= 2 / FAST + 1


async def test_quick_pulses_take_a_fifth_of_slurms_time(slurm, pulsed):
    slurm.seconds["states"] = 0.04
    pulsed.add(young=True)
    async with pulsed.running():
        assert await states_within(pulsed, 4) <= 4 / 0.2 + 1


async def test_pods_that_come_and_go_without_end_cost_slurm_eight_requests_a_second(slurm, pulsed):
    seconds = 600
    async with pulsed.running():
        for _ in range(4 * seconds):
            unit = pulsed.add(young=True)
            await asyncio.sleep(0.25)
            pulsed.units.remove(unit.key)
    assert 7 * seconds <= slurm.calls["states"] <= REQUESTS_PER_SECOND * seconds + SAVED_REQUESTS


async def test_pods_that_come_and_go_delay_no_start_of_another(slurm, pulsed):
    async with pulsed.running():
        for _ in range(60):
            passing, starting = pulsed.add(young=True), pulsed.add()
            await asyncio.sleep(1)
            slurm.start(starting.job.job_id, "CONFIGURING", node="n1")
            await asyncio.sleep(FAST)
            slurm.change(starting.job.job_id, BaseState.RUNNING)
            await asyncio.sleep(0.05)
            assert starting.job.state == JobState(BaseState.RUNNING)
            pulsed.units.remove(passing.key)


async def test_hint_has_slurm_asked_at_once(slurm, pulsed):
    unit = pulsed.add(waiting=False)
    slurm.start(unit.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(0.5)
        slurm.end(unit.job.job_id, BaseState.CANCELLED)
        pulsed.pulse.hint(unit.job.job_id)
        await asyncio.sleep(0.01)
        assert unit.job.state.ended


async def test_hint_that_comes_while_an_answer_is_on_its_way_has_slurm_asked_again(slurm, pulsed):
    unit = pulsed.add(waiting=False)
    slurm.start(unit.job.job_id)
    slurm.seconds["states"] = 0.02
    async with pulsed.running():
        await asyncio.sleep(0.01)
        pulsed.pulse.hint(unit.job.job_id)
        await asyncio.sleep(0.2)
        assert slurm.calls["states"] == 2


async def test_end_of_a_job_that_we_have_cancelled_is_no_news(slurm, pulsed):
    unit = pulsed.add(waiting=False)
    slurm.start(unit.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(0.5)
        before = requests(slurm)
        unit.job.was_cancelled(asyncio.get_running_loop().time())
        pulsed.pulse.hint(unit.job.job_id)
        await asyncio.sleep(0.1)
        assert requests(slurm) == before


@pytest.mark.parametrize("claimed", [True, False], ids=["only claimed", "unknown"])
async def test_hint_about_a_job_that_is_not_ours_is_ignored(slurm, pulsed, claimed):
    pulsed.add(waiting=False)
    unit = pulsed.add(waiting=False, claimed=True)
    slurm.forget(unit.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(0.5)
        before = requests(slurm)
        for _ in range(100):
            pulsed.pulse.hint(unit.job.job_id if claimed else 4711)
            await asyncio.sleep(0.01)
        assert requests(slurm) == before


async def test_hints_without_end_cost_slurm_eight_requests_a_second(slurm, pulsed):
    unit, seconds = pulsed.add(waiting=False), 120
    slurm.start(unit.job.job_id)
    async with pulsed.running():
        for _ in range(seconds * 100):
            pulsed.pulse.hint(unit.job.job_id)
            await asyncio.sleep(0.01)
    assert slurm.calls["states"] <= REQUESTS_PER_SECOND * seconds + SAVED_REQUESTS


async def test_hints_and_pods_that_come_and_go_have_one_budget(slurm, pulsed):
    unit, seconds = pulsed.add(waiting=False), 120
    slurm.start(unit.job.job_id)
    async with pulsed.running():
        for _ in range(seconds * 4):
            passing = pulsed.add(young=True)
            for _ in range(10):
                pulsed.pulse.hint(unit.job.job_id)
                await asyncio.sleep(0.025)
            pulsed.units.remove(passing.key)
    assert slurm.calls["states"] <= REQUESTS_PER_SECOND * seconds + SAVED_REQUESTS


async def test_slow_slurm_is_asked_no_more_often_for_hints(slurm, pulsed):
    unit = pulsed.add(waiting=False)
    slurm.start(unit.job.job_id)
    slurm.seconds["states"] = 2.0
    async with pulsed.running():
        for _ in range(6000):
            pulsed.pulse.hint(unit.job.job_id)
            await asyncio.sleep(0.01)
    assert slurm.calls["states"] <= 60 / (2.0 + 2 * 2.0) + 1


async def test_slurm_that_hangs_has_one_pulse_to_answer_whatever_hooks_say(slurm, pulsed):
    unit = pulsed.add()
    slurm.seconds["states"] = 1000.0
    async with pulsed.running():
        for _ in range(6000):
            pulsed.pulse.hint(unit.job.job_id)
            pulsed.pulse.come_sooner()
            await asyncio.sleep(0.01)
        assert slurm.calls["states"] == 1


async def test_slurm_without_an_answer_in_time_is_asked_ever_less_often_whatever_hooks_say(
    slurm, pulsed
):
    unit = pulsed.add(young=True)
    slurm.seconds["states"] = 1.0
    slurm.fail["states"].extend([SlurmBusy("no answer within 1 s")] * 100)
    async with pulsed.running():
        for _ in range(12_000):
            pulsed.pulse.hint(unit.job.job_id)
            await asyncio.sleep(0.01)
    assert slurm.calls["states"] <= 8, "pauses of 4, 8, 16, 30, 30 ... s"


async def test_hint_while_another_process_leads_costs_slurm_nothing(slurm):
    pulsed = PulsedUnits(slurm, leads=False)
    job = pulsed.add(waiting=False).job
    assert job is not None
    async with pulsed.running():
        for _ in range(100):
            pulsed.pulse.hint(job.job_id)
            await asyncio.sleep(0.1)
    assert set(slurm.calls) == {"ping"}
    assert slurm.calls["ping"] <= 10 / IDLE + 1


async def test_answer_about_some_jobs_says_nothing_of_the_others(slurm, pulsed):
    asked, other = pulsed.add(), pulsed.add()
    slurm.forget(other.job.job_id)
    states = await pulsed.pulse.look_now([asked.job.job_id], cause=WakeCause.HOOK)
    assert set(states) == {asked.job.job_id}
    assert other.job == Placeholder(other.job.job_id, submitted_at=other.job.submitted_at)
    assert pulsed.changed == [asked.key]


async def test_hint_about_one_of_many_jobs_only_ends_an_idle_pause(slurm, pulsed):
    for _ in range(251):
        pulsed.add(waiting=False)
    for job_id in slurm.jobs:
        slurm.start(job_id, node="n1")
    async with pulsed.running():
        for _ in range(1000):
            pulsed.pulse.hint(1)
            await asyncio.sleep(0.01)
    assert 10 / FAST / 2 <= slurm.calls["states"] <= 10 / FAST + 2


async def test_pulse_that_shall_come_sooner_ends_its_idle_pause(slurm, pulsed):
    async with pulsed.running():
        await asyncio.sleep(0.1)
        pulsed.add()
        pulsed.pulse.come_sooner()
        await asyncio.sleep(2 * FAST)
    assert slurm.calls["states"] >= 1


async def test_crowd_in_a_hurry_is_no_faster(slurm, pulsed):
    pulsed.add()
    async with pulsed.running():
        for _ in range(1000):
            pulsed.pulse.come_sooner()
            await asyncio.sleep(0.01)
    assert slurm.calls["states"] <= 10 / FAST + 2


async def test_slow_slurm_is_asked_less_often(slurm, pulsed):
    pulsed.add()
    answer = slurm.job_states

    async def slow(ids):
        await asyncio.sleep(2.0)
        return await answer(ids)

    slurm.job_states = slow
    async with pulsed.running():
        await asyncio.sleep(60)
    assert slurm.calls["states"] <= 60 / (2.0 * 3) + 1


async def test_one_slow_answer_does_not_delay_the_next_pulse(slurm, pulsed):
    pulsed.add()
    async with pulsed.running():
        await asyncio.sleep(5)
        slurm.seconds["states"], asked = 2.0, slurm.calls["states"]
        await asyncio.sleep(2 * FAST)
        assert slurm.calls["states"] == asked + 1, "one request is on its way"
        slurm.seconds["states"] = 0.002
        await asyncio.sleep(2.0 + FAST)
        assert slurm.calls["states"] >= asked + 2


async def test_slurm_that_is_away_is_asked_ever_less_often(slurm, pulsed):
    slurm.fail["ping"].extend([SlurmUnreachable("refused")] * 1000)
    async with pulsed.running():
        await asyncio.sleep(300)
    assert slurm.calls["ping"] <= 5 + 300 / 30
    assert pulsed.pulse.last_answer_at is None


async def test_change_is_reported_once(slurm, pulsed):
    unit = pulsed.add()
    async with pulsed.running():
        await asyncio.sleep(0.1)
        pulsed.changed.clear()
        slurm.start(unit.job.job_id)
        await asyncio.sleep(0.9)
    assert pulsed.changed.count(unit.key) == 1
    assert unit.job.state == JobState(BaseState.RUNNING)


async def test_job_that_is_not_listed_is_a_hint_and_no_proof(slurm, pulsed):
    unit = pulsed.add(waiting=False)
    slurm.forget(unit.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(60)
    assert unit.job.missing == 1
    assert pulsed.changed == [unit.key]


async def test_job_that_is_listed_again_is_no_longer_missed(slurm, pulsed):
    unit = pulsed.add(waiting=False)
    record = slurm.jobs[unit.job.job_id]
    slurm.forget(unit.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(5)
        slurm.jobs[record.job_id] = record
        await asyncio.sleep(5)
    assert unit.job.missing == 0
    assert unit.job.state == record.state


async def test_reasons_of_many_waiting_jobs_have_a_budget(slurm, pulsed):
    for _ in range(500):
        pulsed.add()
    async with pulsed.running():
        await asyncio.sleep(30)
    assert 60 <= slurm.calls["job"] <= 30 * 4 + 4
    looked = [ids for operation, ids in slurm.asked if operation == "job"]
    assert len(set(looked)) == len(looked), "each in turn"


@pytest.mark.parametrize("error", [SlurmBusy("later"), SlurmUnreachable("refused")])
async def test_failed_pulse_changes_nothing_but_doubts_the_records(slurm, pulsed, error):
    unit = pulsed.add(waiting=False)
    await look(cast("SlurmClient", slurm), unit, unit.job, clock=lambda: 1.0)
    slurm.fail["states"].append(error)
    async with pulsed.running():
        await asyncio.sleep(0.1)
    assert pulsed.changed == []
    assert unit.job.missing == 0
    assert unit.job.record is not None
    assert not unit.job.proven


async def test_id_that_slurm_takes_for_none_blinds_nobody_but_its_own_unit(slurm, pulsed):
    """Slurm refuses the whole question; the id is what anybody may write on a pod of his."""
    unit = pulsed.add()
    await look(cast("SlurmClient", slurm), unit, unit.job, clock=lambda: 1.0)
    pulsed.units.add(
        Unit("forger", "ns", "forger", seen_at=0.0, job=Placeholder(4_000_000_000, claimed=True))
    )
    slurm.no_ids.add(4_000_000_000)
    async with pulsed.running():
        await asyncio.sleep(1)
        slurm.start(unit.job.job_id)
        await asyncio.sleep(1)
    assert unit.job.state == JobState(BaseState.RUNNING)
    assert pulsed.pulse.last_answer_at is not None
    assert unit.job.proven


async def test_refusal_of_ids_that_are_only_claimed_is_no_answer_of_slurm(slurm, pulsed):
    """Whatever listens there may refuse them: another program, or slurmctld's own port."""
    pulsed.units.add(
        Unit("claims", "ns", "claims", seen_at=0.0, job=Placeholder(4711, claimed=True))
    )
    refused = SlurmRefused("no explanation", status=404)
    slurm.fail["states"].extend([refused] * 1000)
    slurm.fail["ping"].extend([refused] * 1000)
    async with pulsed.running():
        await asyncio.sleep(60)
    assert pulsed.pulse.last_answer_at is None
    assert slurm.calls.total() <= 2 * (5 + 60 / 30)


async def test_ping_that_finds_no_controller_asks_why(slurm, pulsed):
    """With an expired token all controllers look as if they were down (measured)."""
    heard: list[SlurmError | None] = []
    pulse = Pulse(
        cast("SlurmClient", slurm),
        units=Units(),
        on_change=lambda _key, _cause: None,
        clock=asyncio.get_running_loop().time,
        fast_seconds=FAST,
        idle_seconds=IDLE,
        metrics=Metrics(),
        running_looks=running_looks(slurm),
        on_pulse=heard.append,
    )
    slurm.responding = False
    slurm.fail["states"].append(SlurmDenied("Protocol authentication error", error_number=1007))
    task = asyncio.create_task(pulse.run())
    await asyncio.sleep(IDLE + 5)
    task.cancel()
    assert [type(error) for error in heard] == [SlurmDenied, SlurmBusy]
    assert pulse.last_answer_at is None


async def test_look_counts_only_the_answer_that_there_is_no_such_job(slurm, pulsed):
    unit = pulsed.add()
    slurm.fail["job"].append(SlurmBusy("later"))
    client = cast("SlurmClient", slurm)
    with pytest.raises(SlurmBusy):
        await look(client, unit, unit.job, clock=lambda: 1.0)
    assert unit.job.missing == 0
    slurm.forget(unit.job.job_id)
    await look(client, unit, unit.job, clock=lambda: 1.0)
    await look(client, unit, unit.job, clock=lambda: 1.0)
    assert unit.job.missing == 2


async def test_refusal_of_the_token_refutes_no_claim(slurm):
    job = Placeholder(4711, claimed=True)
    unit = Unit("claims", "ns", "claims", seen_at=0.0, job=job)
    slurm.fail["job"] += [
        SlurmDenied("Protocol authentication error", error_number=1007, status=511),
        SlurmInvalid("Invalid job id", error_number=9000, status=422),
    ]
    client = cast("SlurmClient", slurm)
    with pytest.raises(SlurmDenied):
        await look(client, unit, job, clock=lambda: 1.0)
    assert not job.refuted
    await look(client, unit, job, clock=lambda: 1.0)
    assert job.refuted


@pytest.mark.parametrize("claimed", [True, False])
async def test_long_answer_is_not_read_for_a_job_that_a_pod_only_claims(slurm, pulsed, claimed):
    """The id may be that of an array of others, whose answer has all tasks."""
    unit = pulsed.add(claimed=claimed)
    slurm.bytes_of[unit.job.job_id] = 2 * 1024 * 1024
    await look(cast("SlurmClient", slurm), unit, unit.job, clock=lambda: 1.0)
    assert unit.job.refuted is claimed
    assert (unit.job.record is None) is claimed


async def test_look_at_a_job_that_was_replaced_meanwhile_is_dropped(slurm, pulsed):
    unit = pulsed.add()
    old = unit.job
    async with asyncio.TaskGroup() as group:
        group.create_task(look(cast("SlurmClient", slurm), unit, old, clock=lambda: 1.0))
        await asyncio.sleep(0.001)
        pulsed.units.set_job(unit, Placeholder(999))
    assert old.record is None


async def test_running_jobs_are_looked_at_within_a_budget(slurm, pulsed):
    for _ in range(100):
        unit = pulsed.add(waiting=False)
        slurm.change(unit.job.job_id, BaseState.RUNNING, nodes=("n1",))
    async with pulsed.running():
        await asyncio.sleep(60)
    assert 60 <= slurm.calls["job"] <= 60 * 2 + 2
    looked = [ids for operation, ids in slurm.asked if operation == "job"]
    assert len(set(looked)) >= 60, "each in turn"


async def test_warning_that_no_state_shows_is_found(slurm, pulsed):
    unit = pulsed.add(waiting=False)
    slurm.start(unit.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(10)
        pulsed.changed.clear()
        slurm.change(unit.job.job_id, BaseState.RUNNING, preempt_time=10, end_time=40)
        await asyncio.sleep(8)
    assert pulsed.changed == [unit.key]
    assert unit.job.record.preempt_time == 10


async def test_job_that_cannot_be_read_does_not_look_like_slurm_being_away(slurm, pulsed):
    unreadable, other = pulsed.add(), pulsed.add()
    answer = slurm.job

    async def job(job_id):
        if job_id == unreadable.job.job_id:
            raise SlurmGarbled("no JSON")
        return await answer(job_id)

    slurm.job = job
    async with pulsed.running():
        await asyncio.sleep(30)
    assert slurm.calls["states"] >= 30 / FAST / 2, "the pulse goes on"
    assert other.job.proven
    assert slurm.calls["job"] >= 2


async def test_after_an_outage_every_record_is_read_anew_and_paced(slurm, pulsed):
    units = [pulsed.add(waiting=False) for _ in range(40)]
    for unit in units:
        await look(cast("SlurmClient", slurm), unit, unit.job, clock=lambda: 1.0)
    before = slurm.calls["job"]
    slurm.fail["states"].append(SlurmBusy("later"))
    async with pulsed.running():
        await asyncio.sleep(6)
        assert slurm.calls["job"] - before < 40, "paced"
        await asyncio.sleep(20)
    assert all(unit.job.proven for unit in units)


async def test_another_start_of_the_controller_doubts_every_record(slurm, pulsed):
    """Where Slurm tells, as 26.05 does, and though no poll has failed."""
    for _ in range(400):
        unit = pulsed.add(waiting=False)
        slurm.change(unit.job.job_id, BaseState.RUNNING, nodes=("n1",))
        await look(cast("SlurmClient", slurm), unit, unit.job, clock=lambda: 1.0)
    async with pulsed.running():
        await asyncio.sleep(60)
        before = slurm.calls["job"]
        slurm.boot_time += 1
        await asyncio.sleep(60)
    assert slurm.calls["job"] - before > 60 * 5, "those of a quiet minute are 2 a second"
    assert slurm.calls["config"] <= 120 / 15 + 1


async def test_pulse_that_was_skipped_doubts_every_record(slurm, pulsed):
    """The process stood still, and what happened to Slurm meanwhile went unseen."""
    unit = pulsed.add(waiting=False)
    slurm.start(unit.job.job_id)
    stalled = 0.0
    loop = asyncio.get_running_loop()
    pulsed.pulse = Pulse(
        cast("SlurmClient", slurm),
        units=pulsed.units,
        on_change=lambda key, _cause: pulsed.changed.append(key),
        clock=lambda: loop.time() + stalled,
        fast_seconds=FAST,
        idle_seconds=IDLE,
        metrics=Metrics(),
        running_looks=running_looks(slurm, per_second=0.0),
    )
    slurm.seconds["job"] = 1000.0
    async with pulsed.running():
        await asyncio.sleep(1)
        looked = TaggedJob.of(slurm.jobs[unit.job.job_id])
        unit.job.saw(looked, asked=1.0, at=1.0, answered_at=1.0)
        await asyncio.sleep(2 * IDLE)
        assert unit.job.proven
        stalled = 60.0
        await asyncio.sleep(2 * IDLE)
        assert not unit.job.proven


async def test_slow_looks_hold_up_no_news_of_jobs_that_end(slurm, pulsed):
    """After a failure all records are read anew, and each answer takes seconds."""
    units = [pulsed.add(waiting=False) for _ in range(40)]
    for unit in units:
        slurm.change(unit.job.job_id, BaseState.RUNNING, nodes=("n1",))
        await look(cast("SlurmClient", slurm), unit, unit.job, clock=lambda: 1.0)
    slurm.fail["states"].append(SlurmBusy("later"))
    slurm.seconds.update({"states": 5.0, "job": 5.0})
    async with pulsed.running():
        await asyncio.sleep(30)
        slurm.end(units[0].job.job_id, BaseState.COMPLETED)
        await asyncio.sleep(60)
    assert units[0].job.state.ended


async def test_answer_to_what_was_asked_before_a_failure_proves_nothing(slurm, pulsed):
    """It may tell of a slurmctld that has lost its jobs since."""
    unit = pulsed.add()
    slurm.seconds["job"] = 8.0
    slurm.fail["states"].append(SlurmBusy("later"))
    clock = asyncio.get_running_loop().time
    async with pulsed.running():
        await look(cast("SlurmClient", slurm), unit, unit.job, clock=clock)
        assert unit.job.record is not None
        assert not unit.job.proven
        await asyncio.sleep(60)
    assert unit.job.proven


async def test_news_say_whether_a_pulse_or_a_hook_brought_them(slurm, pulsed):
    unit = pulsed.add()
    slurm.start(unit.job.job_id)
    async with pulsed.running():
        await asyncio.sleep(1)
    assert set(pulsed.causes) == {WakeCause.PULSE}
    pulsed.causes.clear()
    slurm.end(unit.job.job_id, BaseState.CANCELLED)
    await pulsed.pulse.look_now([unit.job.job_id], cause=WakeCause.HOOK)
    assert pulsed.causes == [WakeCause.HOOK]


@pytest.mark.parametrize("waiting", [10, 1100])
async def test_jobs_that_run_are_asked_about_after_those_that_may_have_started(
    slurm, pulsed, waiting
):
    """A pod is bound beside others only if Slurm has said that they hold their place since its own
    job runs. If the same requests served both, that took another pulse where pods are many.
    """
    running = [pulsed.add(waiting=False) for _ in range(1500)]
    starts = [pulsed.add() for _ in range(waiting)][:10]
    ids = list(pulsed.units.job_ids())
    for unit in running:
        slurm.start(unit.job.job_id, node="n1")
    await pulsed.pulse.look_now(ids)
    for unit in starts:
        slurm.start(unit.job.job_id, node="n1")
    slurm.seconds["states"] = 0.1
    before = slurm.calls["states"]
    await pulsed.pulse.look_now(ids)
    assert slurm.calls["states"] == before + 2
    assert all(it.job.ran_beside(new.job) for it in running for new in starts)


async def test_slow_slurm_is_asked_for_all_states_at_once(slurm, pulsed):
    """News of ends would wait for two slow answers."""
    for unit in [pulsed.add() for _ in range(1500)][:1400]:
        slurm.start(unit.job.job_id, node="n1")
    ids, clock = list(pulsed.units.job_ids()), asyncio.get_running_loop().time
    slurm.seconds["states"] = 1.0
    await pulsed.pulse.look_now(ids)
    began, before = clock(), slurm.calls["states"]
    await pulsed.pulse.look_now(ids)
    assert slurm.calls["states"] - before == 1
    assert clock() - began < 1.1
    slurm.seconds["states"] = 0.01
    await pulsed.pulse.look_now(ids)
    before = slurm.calls["states"]
    await pulsed.pulse.look_now(ids)
    assert slurm.calls["states"] - before == 2


async def test_suspended_job_holds_its_place_beside_those_that_may_have_started(slurm, pulsed):
    waiting = [pulsed.add() for _ in range(1100)]
    slurm.change(waiting[0].job.job_id, BaseState.SUSPENDED, nodes=("n1",))
    ids = list(pulsed.units.job_ids())
    await pulsed.pulse.look_now(ids)
    slurm.start(waiting[1].job.job_id, node="n1")
    await pulsed.pulse.look_now(ids)
    assert waiting[0].job.ran_beside(waiting[1].job)


async def test_end_that_a_look_has_shown_is_not_undone_by_a_request_before_it(
    slurm, pulsed, monkeypatch
):
    unit, clock = pulsed.add(waiting=False), asyncio.get_running_loop().time
    ids = [unit.job.job_id]
    slurm.start(ids[0], node="n1")
    await pulsed.pulse.look_now(ids)
    states = slurm.job_states

    async def late(job_ids: list[int]) -> dict[int, JobState]:
        found: dict[int, JobState] = await states(job_ids)
        await asyncio.sleep(2)
        return found

    monkeypatch.setattr(slurm, "job_states", late)
    async with asyncio.TaskGroup() as group:
        group.create_task(pulsed.pulse.look_now(ids))
        await asyncio.sleep(1)
        slurm.end(ids[0], BaseState.PREEMPTED)
        await look(cast("SlurmClient", slurm), unit, unit.job, clock=clock)
    assert unit.job.state.ended


def _answer_looks_late(slurm: TinySlurm, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a look shows was so two seconds before its answer comes."""
    job = slurm.job

    async def late(job_id: int) -> Job:
        found = await job(job_id)
        await asyncio.sleep(2)
        return found

    monkeypatch.setattr(slurm, "job", late)


async def test_late_look_does_not_have_a_job_wait_again(slurm, pulsed, monkeypatch):
    unit, clock = pulsed.add(), asyncio.get_running_loop().time
    ids = [unit.job.job_id]
    _answer_looks_late(slurm, monkeypatch)
    async with asyncio.TaskGroup() as group:
        group.create_task(look(cast("SlurmClient", slurm), unit, unit.job, clock=clock))
        await asyncio.sleep(1)
        slurm.start(ids[0], node="n1")
        await pulsed.pulse.look_now(ids)
    assert unit.job.started
    slurm.requeue(ids[0])
    await pulsed.pulse.look_now(ids)
    assert not unit.job.started


async def test_pause_after_two_requests_in_turn_is_that_after_one(slurm, pulsed):
    for unit in [pulsed.add() for _ in range(1500)][:1400]:
        slurm.start(unit.job.job_id, node="n1")
    slurm.seconds["states"] = 0.2
    async with pulsed.running():
        await asyncio.sleep(5)
        before = slurm.calls["states"]
        await asyncio.sleep(24)
        each = 0.2 + 0.2 + 2 * 0.2  # two answers, and twice the time of one
        assert slurm.calls["states"] - before == pytest.approx(2 * 24 / each, abs=4)


async def test_look_says_that_a_job_holds_its_place_as_a_pulse_does(slurm, pulsed):
    unit, new, clock = pulsed.add(), pulsed.add(), asyncio.get_running_loop().time
    slurm.start(unit.job.job_id, node="n1")
    slurm.start(new.job.job_id, node="n1")
    await pulsed.pulse.look_now([new.job.job_id])
    assert not unit.job.ran_beside(new.job)
    await asyncio.sleep(1)
    await look(cast("SlurmClient", slurm), unit, unit.job, clock=clock)
    assert unit.job.ran_beside(new.job)


async def test_look_during_a_request_for_states_does_not_hide_an_end(slurm, pulsed):
    """Which of the two answers is the older one is not known."""
    old, new, clock = pulsed.add(waiting=False), pulsed.add(), asyncio.get_running_loop().time
    ids = [old.job.job_id, new.job.job_id]
    slurm.start(ids[0], node="n1")
    await pulsed.pulse.look_now(ids)
    slurm.seconds["states"] = 2.0
    async with asyncio.TaskGroup() as group:
        group.create_task(pulsed.pulse.look_now(ids))
        await asyncio.sleep(1)
        await look(cast("SlurmClient", slurm), old, old.job, clock=clock)
        slurm.end(ids[0], BaseState.PREEMPTED)
        slurm.start(ids[1], node="n1")
    assert old.job.state.ended
    assert not old.job.ran_beside(new.job)


async def test_late_answer_of_a_look_does_not_undo_an_end(slurm, pulsed, monkeypatch):
    old, new, clock = pulsed.add(waiting=False), pulsed.add(), asyncio.get_running_loop().time
    ids = [old.job.job_id, new.job.job_id]
    slurm.start(ids[0], node="n1")
    await pulsed.pulse.look_now(ids)
    _answer_looks_late(slurm, monkeypatch)
    async with asyncio.TaskGroup() as group:
        group.create_task(look(cast("SlurmClient", slurm), old, old.job, clock=clock))
        await asyncio.sleep(1)
        slurm.end(ids[0], BaseState.PREEMPTED)
        slurm.start(ids[1], node="n1")
        await pulsed.pulse.look_now(ids)
    assert old.job.state.ended
    assert not old.job.ran_beside(new.job)
