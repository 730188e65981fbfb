"""What the records of a pod's own jobs say about its time, and what a new job is asked for."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from scheduler.core.owner_tag import NO_END, read_tag
from scheduler.core.tagged import TaggedJob
from scheduler.core.tenure import YEAR_MINUTES, Tenure, learnt, weighed
from slurmapi.model import BaseState, SlurmNode
from tests.unit.core.things import record, tag

START: Final = 10_000
HOUR: Final = 3600
RUNS: Final = record(start_time=START, time_limit_minutes=60, end_time=START + HOUR)
WAITS: Final = record(BaseState.PENDING, nodes=(), start_time=START, time_limit_minutes=60)


def until(*records: TaggedJob) -> float | None:
    """When the pod's time is over, after looks that have shown these records one by one."""
    tenure = Tenure()
    for number, looked in enumerate(records):
        now = float(number)
        tenure = learnt(tenure, looked, now=now, at=now, epoch=START + now, lived_at=now)
    return tenure.until


def ended(looked: TaggedJob, **more: Any) -> TaggedJob:
    """The same job after its script has died, a minute after its start."""
    fields: dict[str, Any] = {"state": record(BaseState.FAILED).state, "end_time": START + 60}
    return replace(looked, **(fields | more))


def replacing(looked: TaggedJob, *, until: int) -> TaggedJob:
    """The same, of a job that was asked for in the place of a lost one."""
    found = read_tag(tag(node="n1"))
    assert found is not None
    return replace(looked, admin_comment=found.encode(until=until, tries=1))


RAISED: Final = replace(RUNS, time_limit_minutes=120, end_time=START + 2 * HOUR)
UNLIMITED: Final = replace(RUNS, time_limit_minutes=None, end_time=None)
RESUMED: Final = replace(RUNS, end_time=START + 2 * HOUR)
"""It was suspended for an hour."""
WARNED: Final = replace(RUNS, preempt_time=START + 60, end_time=START + 80)


@pytest.mark.parametrize(
    ("records", "end"),
    [
        ([WAITS], None),
        ([RUNS], START + HOUR),
        ([RUNS, RAISED], START + 2 * HOUR),
        ([RUNS, UNLIMITED], NO_END),
        ([UNLIMITED, RUNS], START + HOUR),
        ([RUNS, RESUMED], START + 2 * HOUR),
        ([RUNS, WARNED], START + HOUR),
        ([ended(RUNS)], START + HOUR),
        ([RUNS, ended(RUNS)], START + HOUR),
        ([RUNS, ended(RAISED)], START + 2 * HOUR),
        ([RESUMED, ended(RUNS)], START + 2 * HOUR),
        ([UNLIMITED, ended(UNLIMITED)], NO_END),
        ([RUNS, ended(UNLIMITED)], NO_END),
        ([RUNS, ended(UNLIMITED, nodes=())], START + HOUR),
        ([RUNS, replacing(WAITS, until=START + HOUR)], START + HOUR),
        ([replacing(WAITS, until=NO_END)], NO_END),
        ([replacing(UNLIMITED, until=START + HOUR)], NO_END),
        ([replacing(RUNS, until=START + HOUR - 59)], START + HOUR - 59),
        ([replacing(RAISED, until=START + HOUR - 59)], START + 2 * HOUR),
        ([replacing(RUNS, until=NO_END)], START + HOUR),
    ],
    ids=[
        "a forecast",
        "its limit",
        "a limit that an operator has raised",
        "a limit that an operator has removed",
        "and set again",
        "the time for which it was suspended",
        "a preemption is no other limit",
        "the limit of an ended job",
        "as before",
        "raised since the last look",
        "suspended, as a live record has said",
        "without a limit, as before",
        "removed since the last look",
        "that never started",
        "the end that the tag has",
        "no end by the tag",
        "a removed limit of the next job",
        "rounded up to minutes",
        "a raised limit of the next job",
        "a limit again for the next job",
    ],
)
def test_time_of_a_pod_is_what_slurm_gives_its_job(records, end):
    assert until(*records) == end


def seen(tenure: Tenure, looked: TaggedJob, *, at: float, lived_at: float) -> Tenure:
    """The tenure after a look `at` that time, if the last sight of the living job was then."""
    return learnt(tenure, looked, now=at, at=at, epoch=START + at, lived_at=lived_at)


SUSPENDED: Final = replace(RUNS, state=record(BaseState.SUSPENDED).state)
"""Its end is as it was: Slurm moves it when it resumes the job."""


def suspended(looked: TaggedJob = SUSPENDED, *, seconds: float = 2 * HOUR) -> Tenure:
    """A job ran for ten minutes and was suspended so long; this is its record then."""
    tenure, until = seen(Tenure(), RUNS, at=0.0, lived_at=0.0), 600.0 + seconds
    for lived_at in (600.0, until):
        tenure = seen(tenure, SUSPENDED, at=600.0, lived_at=lived_at)
    return seen(tenure, looked, at=until, lived_at=until)


def test_time_of_a_suspended_job_goes_on_only_once_it_was_last_seen():
    tenure = suspended()
    assert tenure.minutes(START + 600 + 2 * HOUR) == 50
    assert not tenure.is_over(START + 3 * HOUR - 1)
    assert tenure.is_over(START + 3 * HOUR)


LIMIT_RAISED: Final = replace(SUSPENDED, time_limit_minutes=120, end_time=START + 2 * HOUR)


@pytest.mark.parametrize(
    ("looked", "end"),
    [
        (SUSPENDED, START + 3 * HOUR),
        (replace(SUSPENDED, priority=1), START + 3 * HOUR),
        (LIMIT_RAISED, START + 4 * HOUR),
        (replace(SUSPENDED, end_time=START + 3 * HOUR), START + 3 * HOUR),
        (ended(RUNS), START + 3 * HOUR),
        (replace(RUNS, end_time=START + 3 * HOUR), START + 3 * HOUR),
        (replace(RUNS, job_id=RUNS.job_id + 1), START + HOUR),
        (replace(SUSPENDED, job_id=RUNS.job_id + 1), START + HOUR),
        (UNLIMITED, NO_END),
        (WAITS, START + 3 * HOUR),
        (replacing(WAITS, until=START + 3 * HOUR), START + 3 * HOUR),
    ],
    ids=[
        "the same record",
        "another look",
        "an operator has raised its limit",
        "it was resumed, and is suspended once more",
        "it has ended",
        "it was resumed, and Slurm has moved its end",
        "another job",
        "another job that is suspended",
        "without a limit",
        "Slurm has forgotten that it was started",
        "the job in its place",
    ],
)
def test_end_of_a_suspended_job_is_moved_once(looked, end):
    assert suspended(looked).end == end


def test_time_of_a_job_without_a_limit_has_no_end_if_it_was_suspended():
    unlimited = replace(SUSPENDED, time_limit_minutes=None, end_time=None)
    tenure = suspended(unlimited)
    assert tenure.end == NO_END
    assert tenure.minutes(START) == YEAR_MINUTES


def test_time_without_an_end_is_never_over_and_the_next_job_gets_the_longest_limit():
    endless = Tenure(until=NO_END)
    assert not endless.is_over(START + 100 * 365 * 24 * HOUR)
    assert endless.minutes(START) == YEAR_MINUTES
    assert Tenure().minutes(START) is None
    assert Tenure(until=START + 61).minutes(START) == 2
    assert Tenure(until=START - 1).minutes(START) == 1


def test_pod_is_given_time_again_if_its_node_was_not_read_for_long():
    node = SlurmNode(name="n1", states=frozenset())
    tenure = Tenure()
    for now, since in ((5.0, 5.0), (35.0, 5.0), (300.0, 5.0), (700.0, 700.0), (730.0, 700.0)):
        tenure = weighed(tenure, node, now=now)
        assert (tenure.node_at, tenure.weighed_since) == (now, since)
