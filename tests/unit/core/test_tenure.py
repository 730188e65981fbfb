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
        tenure = learnt(tenure, looked, now=now, at=now, epoch=START + now)
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
