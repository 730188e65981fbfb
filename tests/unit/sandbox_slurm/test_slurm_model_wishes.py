"""What a job asks of when and where, where a contract test cannot look: threads, clocks, syntax."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from scheduler.sandbox.slurm import constraints, hostlist
from scheduler.sandbox.slurm.records import State
from scheduler.sandbox.slurm.times import read_time
from tests.unit.sandbox_slurm.harness import START, Lab, config


@pytest.fixture
def threaded() -> Lab:
    """Nodes of 8 cores with two threads each."""
    plain = config()
    nodes = tuple(replace(node, threads_per_core=2) for node in plain.nodes)
    return Lab(replace(plain, nodes=nodes))


@pytest.mark.parametrize(("threads", "cpus"), [(None, 4), (1, 6), (2, 4)])
def test_cpus_are_made_of_as_many_threads_of_a_core_as_asked(
    threaded: Lab, threads: int | None, cpus: int
) -> None:
    """Measured on 26.05.5 and 24.11.5: 3 CPUs on cores of two threads."""
    asked: dict[str, Any] = {} if threads is None else {"threads_per_core": threads}
    job = threaded.submit(cpus_per_task=3, **asked)
    threaded.pass_time()
    assert job.shares[0].cpus == cpus


def test_more_threads_than_any_core_has_are_refused(threaded: Lab) -> None:
    assert threaded.refusal(threads_per_core=4) == 2014
    assert threaded.refusal(threads_per_core=1, cpus_per_task=9) == 2014


@pytest.mark.parametrize(
    ("text", "features", "holds"),
    [
        ("", "", True),
        ("a", "a b", True),
        ("a&b", "a", False),
        ("a,b", "a b", True),
        ("a|b", "b", True),
        ("[a|b]", "c", False),
        ("a&(b|c)", "a c", True),
        ("a*2", "a", True),
        ("a|b&c", "a", False),
        ("a&b|c", "c", True),
    ],
)
def test_constraint_holds_where_slurm_says_so(text: str, features: str, holds: bool) -> None:
    assert constraints.read(text).holds(features.split()) == holds


@pytest.mark.parametrize("text", ["a&", "|a", "a b", "(a", "a)", "((a))", "(a|[b])", "!a", "a[b]"])
def test_constraint_that_slurm_would_not_read_is_refused(text: str) -> None:
    with pytest.raises(constraints.ConstraintError):
        constraints.read(text)


def test_features_used_are_told_once_the_preferred_node_was_got(lab: Lab) -> None:
    preferred = lab.submit(prefer="fast", constraints="slow|fast", cpus_per_task=16)
    other = lab.submit(prefer="fast")
    lab.pass_time()
    assert (preferred.preferred, preferred.shares[0].node) == (True, "n1")
    assert (other.preferred, other.shares[0].node) == (False, "n2")


def test_pending_job_ends_when_its_deadline_cannot_be_met_any_more(lab: Lab) -> None:
    lab.submit(cpus_per_task=16, nodes="2", tasks=2)
    lab.pass_time()
    job = lab.submit(deadline=int(START) + 700, time_limit=10)
    lab.pass_time(60)
    assert job.state is State.PENDING
    lab.pass_time(60)
    assert (job.state, job.reason) == (State.DEADLINE, "DeadLine")


def test_after_a_jobs_start_the_minutes_are_waited_for(lab: Lab) -> None:
    first = lab.submit()
    job = lab.submit(dependency=f"after:{first.id}+1")
    lab.pass_time()
    lab.pass_time(50)
    assert job.reason == "Dependency"
    lab.pass_time(20)
    assert job.state is State.RUNNING


def test_any_term_will_do_where_a_question_mark_stands(lab: Lab) -> None:
    first = lab.submit(hold=True)
    job = lab.submit(dependency=f"singleton?afterok:{first.id}", name="twin")
    lab.pass_time()
    assert job.state is State.RUNNING


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("now", "2026-05-04T10:30:15"),
        ("now+90", "2026-05-04T10:31:45"),
        ("now+2hours", "2026-05-04T12:30:15"),
        ("now+1week", "2026-05-11T10:30:15"),
        ("today", "2026-05-04T00:00:00"),
        ("tomorrow", "2026-05-05T00:00:00"),
        ("midnight", "2026-05-05T00:00:00"),
        ("noon", "2026-05-04T12:00:00"),
        ("09:00", "2026-05-05T09:00:00"),
        ("11:00:30", "2026-05-04T11:00:30"),
        ("2030-01-01", "2030-01-01T00:00:00"),
        ("2030-01-01T08:00", "2030-01-01T08:00:00"),
    ],
)
def test_moments_are_those_of_the_controllers_clock(text: str, told: str) -> None:
    now = datetime(2026, 5, 4, 10, 30, 15)  # noqa: DTZ001 - as the controller's clock, without zone
    assert read_time(text, now=now.timestamp()) == datetime.fromisoformat(told).timestamp()


@pytest.mark.parametrize("text", ["soon", "2030-01-01T00:00:00Z", "25:99:99", "now+x"])
def test_moment_that_slurm_would_not_read_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_time(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [("a", ["a"]), ("n[08-10],b", ["n08", "n09", "n10", "b"]), ("a[1,3]b", ["a1b", "a3b"])],
)
def test_hostlists_are_expanded(text: str, names: list[str]) -> None:
    assert list(hostlist.expand(text)) == names
