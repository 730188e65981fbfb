"""Jobs of running pods are looked at as often as a warning before their preemption needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import cast

import pytest
import structlog

from scheduler.core.tagged import TaggedJob
from scheduler.observe.metrics import Metrics
from scheduler.slurm.grace_times import GraceTimes
from scheduler.slurm.running_looks import RunningLooks
from scheduler.state.units import Placeholder, Unit
from slurmapi import BaseState, JobState, SlurmClient, SlurmUnreachable
from tests.unit.service.tiny_slurm import WITHOUT_CONF, TinySlurm

RUNNING = JobState(BaseState.RUNNING)
SECONDS = 300
SAVED_SECONDS = 4


def running(
    slurm: TinySlurm, partition: str, *, count: int = 1, namespace: str = "ns"
) -> list[Unit]:
    """Units whose pods run, with jobs in that partition."""
    units = []
    for _ in range(count):
        job_id = slurm.add(state=RUNNING, partition=partition, nodes=("n1",))
        job = Placeholder(job_id)
        job.saw(TaggedJob.of(slurm.jobs[job_id]), asked=0.0, at=0.0, answered_at=0.0)
        unit = Unit(f"{partition}-{job_id}", namespace, f"p-{job_id}", seen_at=0.0, job=job)
        unit.waiting = False
        units.append(unit)
    return units


class Looking:
    """The looks at some units, and what is said and measured of them."""

    def __init__(self, slurm: TinySlurm, *, per_second: float = 10.0) -> None:
        self.metrics = Metrics()
        self.grace_times = GraceTimes(cast("SlurmClient", slurm))
        self.running = RunningLooks(self.grace_times, per_second=per_second, metrics=self.metrics)
        self.now = 1000.0

    async def looks(self, units: Sequence[Unit]) -> Counter[str]:
        """How often each of them is looked at within SECONDS."""
        counted = Counter[str]()
        for _ in range(SECONDS):
            counted.update(await self.pulse(units))
        return counted

    async def pulse(self, units: Sequence[Unit], *, after: float = 1.0) -> list[str]:
        """The keys of those that are looked at with a pulse that comes after so many seconds."""
        self.now += after
        looked_at = []
        for unit in await self.running.due(units, now=self.now):
            assert unit.job is not None
            unit.job.looked_at = self.now
            looked_at.append(unit.key)
        return looked_at

    @property
    def needed(self) -> float:
        found = self.metrics.registry.get_sample_value(
            "slurm_pod_scheduler_running_looks_needed_per_second"
        )
        assert found is not None
        return found


@pytest.fixture
def slurm() -> TinySlurm:
    slurm = TinySlurm()
    slurm.nodes_in |= {"grace": ("n1",), "short": ("n1",)}
    slurm.grace_seconds = {"grace": 60, "short": 2}
    return slurm


async def test_job_is_looked_at_four_times_within_its_grace_time(slurm):
    looking = Looking(slurm)
    await looking.grace_times.read()
    graced, plain, short = (running(slurm, it) for it in ("grace", "main", "short"))
    counted = await looking.looks([*graced, *plain, *short])
    assert counted[graced[0].key] == SECONDS / 15
    assert counted[plain[0].key] == SECONDS / 20, "an operator may change its time limit"
    assert counted[short[0].key] == SECONDS, "no more often than pulses come"
    assert looking.needed == pytest.approx(1 / 15 + 1)


@pytest.mark.parametrize("between_pulses", [1.1, 2.0, 3.0])
async def test_no_look_is_late_because_pulses_are_rare(slurm, between_pulses):
    slurm.grace_seconds = {"grace": 15}
    looking = Looking(slurm)
    await looking.grace_times.read()
    (unit,) = units = running(slurm, "grace")
    assert unit.job is not None
    ages = []
    for _ in range(SECONDS):
        before = unit.job.looked_at
        if await looking.pulse(units, after=between_pulses):
            ages.append(looking.now - before)
    assert max(ages[1:]) <= 15 / 4
    assert min(ages[1:]) > 15 / 4 - between_pulses, "no sooner than it takes"


async def test_what_was_missed_is_not_made_up_for_with_looks_far_ahead(slurm):
    looking = Looking(slurm)
    await looking.grace_times.read()
    (unit,) = units = running(slurm, "grace")
    assert await looking.pulse(units) == [unit.key]
    assert not await looking.pulse(units, after=10.0), "the next is due after 15 s"
    assert await looking.pulse(units, after=4.5) == [unit.key], "the last was 4.5 s ago"


@pytest.mark.parametrize(
    ("preempt_type", "seconds"),
    [("preempt/none", 20), ("", 20), ("preempt/qos", 5)],
)
async def test_grace_time_of_a_partition_counts_with_partition_prio_alone(
    slurm, preempt_type, seconds
):
    slurm.preempt_type = preempt_type
    looking = Looking(slurm)
    await looking.grace_times.read()
    units = running(slurm, "grace")
    assert (await looking.looks(units))[units[0].key] == SECONDS / seconds
    assert looking.needed == 0.0


async def test_slurm_that_does_not_say_how_it_preempts_is_taken_by_its_partitions(slurm):
    slurm.version = WITHOUT_CONF
    looking = Looking(slurm)
    units = [*running(slurm, "grace"), *running(slurm, "main")]
    assert set((await looking.looks(units)).values()) == {SECONDS / 5}, "nothing was read yet"
    await looking.grace_times.read()
    counted = await looking.looks(units)
    assert [counted[it.key] for it in units] == [SECONDS / 15, SECONDS / 5]


async def test_what_was_read_stays_while_slurm_is_away(slurm):
    looking = Looking(slurm)
    await looking.grace_times.read()
    slurm.fail["config"].append(SlurmUnreachable("away"))
    with pytest.raises(SlurmUnreachable):
        await looking.grace_times.read()
    assert looking.grace_times.seconds("grace") == 60


async def test_many_other_jobs_delay_no_look_at_a_job_with_a_grace_time(slurm):
    looking = Looking(slurm)
    await looking.grace_times.read()
    graced, others = running(slurm, "grace", count=50), running(slurm, "main", count=1000)
    counted = await looking.looks([*others, *graced])
    assert {counted[it.key] for it in graced} == {SECONDS / 15}
    assert sum(counted[it.key] for it in others) <= 2 * (SECONDS + SAVED_SECONDS)
    assert max(counted[it.key] for it in others) == 1, "each in turn"


@pytest.mark.parametrize(("partition", "seconds"), [("grace", 15), ("main", 20)])
async def test_thousands_of_running_pods_delay_no_look_at_the_job_of_another_namespace(
    slurm, partition, seconds
):
    looking = Looking(slurm)
    await looking.grace_times.read()
    crowd = running(slurm, partition, count=2000, namespace="a")
    (unit,) = running(slurm, partition, namespace="b")
    counted = await looking.looks([*crowd, unit])
    assert counted[unit.key] == SECONDS / seconds
    assert max(counted.values()) == counted[unit.key], "the others in turn"


async def test_pods_that_come_and_go_delay_no_look_at_the_job_of_another_namespace(slurm):
    """A job that was never looked at has been due for longer than any other."""
    looking = Looking(slurm)
    await looking.grace_times.read()
    (unit,) = running(slurm, "grace", namespace="b")
    looked_at = Counter[str]()
    for _ in range(60):
        crowd = running(slurm, "grace", count=20, namespace="a")
        looked_at.update(await looking.pulse([*crowd, unit]))
    assert looked_at[unit.key] == 60 / 15


async def test_budget_that_is_too_small_is_kept_and_said_once(slurm):
    looking = Looking(slurm, per_second=10.0)
    await looking.grace_times.read()
    units = running(slurm, "grace", count=500)
    with structlog.testing.capture_logs() as logs:
        counted = await looking.looks(units)
    assert counted.total() <= 10 * (SECONDS + SAVED_SECONDS)
    assert set(counted.values()) <= {6, 7}, "each in turn"
    assert logs == [
        {
            "event": "preemptions may be seen late",
            "log_level": "warning",
            "looks_needed_per_second": 33.3,
            "running_looks_per_second": 10.0,
        }
    ]
    with structlog.testing.capture_logs() as logs:
        await looking.looks(units[:100])
        await looking.looks(units)
    assert len(logs) == 1, "it was enough in between"


async def test_without_a_budget_no_running_job_is_looked_at(slurm):
    looking = Looking(slurm, per_second=0.0)
    await looking.grace_times.read()
    assert not await looking.looks(running(slurm, "grace"))


async def test_pods_that_wait_and_jobs_that_wait_are_none_of_these(slurm):
    looking = Looking(slurm)
    await looking.grace_times.read()
    waiting, pending, without = running(slurm, "grace", count=3)
    waiting.waiting = True
    assert pending.job is not None
    pending.job.state, without.job = JobState(BaseState.PENDING), None
    assert not await looking.looks([waiting, pending, without])
