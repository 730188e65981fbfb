"""The process dies at each of its writes and decisions; the next one continues, or dies as well
while it recovers. Nothing is lost, doubled or harmed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.crash.operations import write_operations
from tests.crash.process import AT_QUESTIONS, Death, Moment
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.sweep import Played, Point, Recoveries, play, points, reached

# ANSWERED leaves the same behind as UNANSWERED: the server has carried out the write, and what the
# process knew is lost. `test_whole_life.py` plays both.
_MOMENTS = tuple(it for it in Moment if it is not Moment.ANSWERED)
# A few hundred lives each, on a machine that has other work.
pytestmark = [pytest.mark.sweep, pytest.mark.timeout(300)]


@pytest.fixture(autouse=True)
def _errors() -> Iterator[None]:
    """Nothing that the process takes for its own fault."""
    with structlog.testing.capture_logs() as logs:
        yield
    failed = [it for it in logs if it["log_level"] in {"error", "critical"}]
    assert not failed, failed


@pytest.mark.parametrize(
    ("scenario", "moment"),
    [
        pytest.param(scenario, moment, id=f"{scenario.name}-{moment}")
        for scenario in SCENARIOS
        for moment in _MOMENTS
        if scenario.hooks or moment not in AT_QUESTIONS
    ],
)
def test_process_may_die_at_any_point_and_the_next_one_while_it_recovers(
    scenario: Scenario, moment: Moment
) -> None:
    recoveries = Recoveries(moment)
    for point in points(scenario, moment):
        run = _with_deaths(scenario, point)
        if moment is Moment.UNANSWERED:  # a death before a write is one after the write before it
            for again in recoveries.new(run):
                _with_deaths(scenario, point, again)


def _with_deaths(scenario: Scenario, *at: Point) -> Played:
    where = ", then ".join(map(str, at))
    try:
        run = play(scenario, *(it.death for it in at))
    except BaseException as error:
        error.add_note(f"{scenario.name}, death at {where}")
        raise
    for process, point in zip(run.processes, at, strict=False):
        assert reached(process, point), f"{scenario.name} has gone another way: {where}"
    return run


def test_twin_that_comes_late_does_not_keep_a_pod_on_a_node_that_is_lost() -> None:
    """Found by deaths at all writes of a recovery, of which the sweep takes only the first ones."""
    (lost,) = (it for it in SCENARIOS if it.name.startswith("job_loses_its_node"))
    submit = next(it for it in points(lost, Moment.LATE) if it.what.endswith("/submit"))
    run = play(lost, submit.death)
    (told_of_its_end,) = (
        it.number for it in run.processes[1].writes[3:] if it.what.endswith("/train/status")
    )
    play(lost, submit.death, Death(Moment.UNANSWERED, told_of_its_end))


def test_every_write_operation_of_the_clients_is_a_crash_point() -> None:
    called = frozenset[str]().union(*(play(scenario).operations for scenario in SCENARIOS))
    assert write_operations() <= called
