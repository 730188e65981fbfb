"""The rule for pods that end too soon: a line of them slows down, and nothing else does."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.crash_pause import (
    FORERUNNER_SECONDS,
    MOST_FORERUNNERS,
    Forerunner,
    PodController,
    Succession,
    pause_seconds,
)

WEB, DB = PodController("ns", "web"), PodController("ns", "db")
CONTROLLERS = st.builds(
    PodController, st.just("ns"), st.sampled_from("abc"), st.sampled_from(["", "1"])
)


def early(times: int = 1, *, at: float = 0.0) -> Forerunner:
    return Forerunner(times=times, noted_at=at, until=at + pause_seconds(times), message="why")


def test_pauses_are_those_of_a_crashing_container():
    assert [pause_seconds(times) for times in range(9)] == [0, 0, 10, 20, 40, 80, 160, 300, 300]


@given(st.integers(0, 10**9))
def test_pause_never_shrinks_and_has_an_end(times):
    assert pause_seconds(times) <= pause_seconds(times + 1) <= 300


def test_each_early_end_holds_back_one_pod():
    lines = Succession()
    lines.note(WEB, early(3))
    assert lines.take(WEB, 0.0) == early(3)
    assert lines.take(WEB, 0.0) is None


def test_pods_of_other_controllers_are_not_concerned():
    lines = Succession()
    lines.note(WEB, early())
    assert lines.take(DB, 0.0) is None
    assert lines.take(PodController("ns", "web", "another revision"), 0.0) is None
    assert lines.take(PodController("another", "web"), 0.0) is None
    assert lines.take(PodController("ns", "web", called="by another name"), 0.0) == early()


def test_place_that_nobody_takes_is_forgotten():
    lines = Succession()
    lines.note(WEB, early())
    assert lines.take(WEB, FORERUNNER_SECONDS + 1) is None
    assert len(lines) == 0


def test_of_very_many_the_oldest_are_forgotten():
    lines = Succession()
    for number in range(MOST_FORERUNNERS + 5):
        lines.note(PodController("ns", str(number)), early(at=number / MOST_FORERUNNERS))
    assert len(lines) == MOST_FORERUNNERS
    assert lines.take(PodController("ns", "4"), 1.0) is None
    assert lines.take(PodController("ns", "5"), 1.0) is not None


STEPS = st.lists(
    st.tuples(CONTROLLERS, st.booleans(), st.sampled_from([0.0, 1.0, FORERUNNER_SECONDS / 2])),
    max_size=60,
)


@given(STEPS)
def test_nobody_waits_for_more_than_has_ended_and_what_is_kept_is_fresh(steps):
    lines, now = Succession(), 0.0
    unanswered: dict[PodController, int] = {}
    for controller, ends, seconds in steps:
        now += seconds
        if ends:
            lines.note(controller, early(at=now))
            unanswered[controller] = unanswered.get(controller, 0) + 1
        elif (found := lines.take(controller, now)) is not None:
            unanswered[controller] -= 1
            assert now - found.noted_at <= FORERUNNER_SECONDS
        assert len(lines) <= sum(unanswered.values())
        assert all(left >= 0 for left in unanswered.values())


@given(st.lists(st.integers(0, 59), min_size=30, max_size=200))
def test_line_that_always_ends_too_soon_costs_a_job_each_five_minutes_in_the_end(lives):
    """However early each of them ends, and though its controller makes the next one at once."""
    lines, now, begun = Succession(), 0.0, list[float]()
    before: Forerunner | None = None
    for life in lives:
        begun.append(max(now, 0.0 if before is None else before.until))
        now = begun[-1] + life
        lines.note(WEB, early(1 if before is None else before.times + 1, at=now))
        before = lines.take(WEB, now)
    for number in range(8, len(begun)):
        assert begun[number] - begun[number - 1] >= 300
