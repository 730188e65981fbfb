"""Budgets by key: a burst, then a steady pace, and nothing kept of who is within."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.budgets import MOST_KEYS, Budgets, Turns


def taken(budgets: Budgets[str], times: list[float]) -> int:
    count = 0
    for now in times:
        if not budgets.wait("a", now):
            budgets.take("a", now)
            count += 1
    return count


@given(st.lists(st.floats(0, 1000), max_size=300), st.integers(1, 9), st.floats(0.1, 100))
def test_never_more_than_the_budget(times: list[float], burst: int, seconds: float) -> None:
    times.sort()
    span = times[-1] - times[0] if times else 0.0
    assert taken(Budgets[str](burst, seconds), times) <= burst + span / seconds + 1e-6


def test_burst_then_one_at_a_time() -> None:
    budgets = Budgets[str](3, 10.0)
    assert taken(budgets, [0.0] * 9) == 3
    assert budgets.wait("a", 4.0) == 6.0
    assert taken(budgets, [4.0, 10.0, 10.0]) == 1
    assert budgets.wait("b", 10.0) == 0.0
    assert taken(budgets, [1000.0] * 9) == 3


def test_rate_is_kept_and_saved_up_only_for_a_burst() -> None:
    budgets = Budgets[str](3, 0.5)
    assert [budgets.try_spend("a", 100.0) for _ in range(4)] == [True, True, True, False]
    assert [budgets.try_spend("a", 100.6) for _ in range(2)] == [True, False]


def test_what_is_whole_again_is_forgotten_and_the_rest_is_bounded() -> None:
    budgets = Budgets[str](3, 10.0)
    for number in range(MOST_KEYS + 100):
        budgets.take(str(number), 0.0)
    assert len(budgets) == MOST_KEYS
    budgets.take("x", 100.0)
    assert len(budgets) == 1


@given(st.lists(st.floats(0, 100), max_size=100), st.integers(1, 9), st.floats(0.1, 10))
def test_who_comes_at_its_turn_is_let_through_then(
    times: list[float], burst: int, seconds: float
) -> None:
    turns = Turns[str](burst, seconds)
    due = sorted((at, str(number)) for number, at in enumerate(times))
    asked = 0
    taken: list[float] = []
    while due:
        now, key = heappop(due)
        asked += 1
        wait = turns.wait("a", key, now)
        if wait:
            heappush(due, (now + wait, key))
        else:
            turns.take("a", key, now)
            taken.append(now)
    assert len(turns) == 0
    assert asked <= 3 * len(times), "nobody comes again and again"
    for number, at in enumerate(taken):
        since = [it for it in taken[number:] if it <= at + 10 * seconds]
        assert len(since) <= burst + 10 + 1


def test_turn_of_one_that_leaves_is_the_next_ones() -> None:
    turns = Turns[str](1, 10.0)
    turns.take("a", "first", 0.0)
    assert turns.wait("a", "second", 0.0) == 10.0
    assert turns.wait("a", "third", 0.0) == 20.0
    turns.leave("a", "second")
    assert turns.wait("a", "fourth", 5.0) == 15.0, "there is one before it"
    turns.leave("a", "third")
    turns.leave("a", "fourth")
    assert turns.wait("a", "fifth", 5.0) == 5.0
    assert turns.wait("b", "other", 5.0) == 0.0


def test_who_does_not_come_at_its_turn_is_not_waited_for() -> None:
    turns = Turns[str](1, 10.0)
    turns.take("a", "first", 0.0)
    for number in range(5):
        turns.wait("a", str(number), 0.0)
    assert len(turns) == 5
    turns.take("a", "second", 200.0)
    assert turns.wait("a", "late", 200.0) == 10.0
    assert len(turns) == 1


def served(turns: Turns[str], comes: dict[str, list[float]], most: int) -> dict[str, list[float]]:
    """When the keys of each line are let through, if all come when they are told to. `comes` says
    when the keys of each line come first, and `most` how often one asks at most.
    """
    due = sorted((at, number, line) for line in comes for number, at in enumerate(comes[line]))
    asked = Counter[tuple[int, str]]()
    found: dict[str, list[float]] = {line: [] for line in comes}
    while due:
        now, number, line = heappop(due)
        asked[number, line] += 1
        key = f"{line}-{number}"
        wait = turns.wait("all", key, now, line=line)
        if wait:
            heappush(due, (now + wait, number, line))
        else:
            turns.take("all", key, now, line=line)
            found[line].append(now)
    assert len(turns) == 0
    assert max(asked.values(), default=0) <= most, "nobody comes again and again"
    return found


def test_long_line_delays_another_by_one_of_its_keys() -> None:
    turns = Turns[str](1, 10.0)
    found = served(turns, {"a": [0.0] * 100, "b": [5.0], "c": [95.0, 96.0]}, most=4)
    assert found["b"] == [pytest.approx(20.0)], "one of a was before it"
    assert found["c"] == [pytest.approx(110.0), pytest.approx(130.0)]
    assert found["a"][-1] == pytest.approx(1020.0), "no turn is lost"


def test_lines_that_are_full_share_the_budget() -> None:
    turns = Turns[str](3, 1.0)
    found = served(turns, {line: [0.0] * 100 for line in "abcdefgh"}, most=5)
    for at in found.values():
        assert sum(it <= 400.0 for it in at) == pytest.approx(50, abs=2)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(st.floats(0, 100), max_size=40)),
    st.integers(1, 9),
    st.floats(0.1, 10),
)
def test_all_lines_are_let_through_within_the_budget(
    comes: dict[str, list[float]], burst: int, seconds: float
) -> None:
    taken = sorted(chain.from_iterable(served(Turns[str](burst, seconds), comes, 20).values()))
    assert len(taken) == sum(map(len, comes.values()))
    for number, at in enumerate(taken):
        since = [it for it in taken[number:] if it <= at + 10 * seconds]
        assert len(since) <= burst + 10 + 1


def test_keys_that_do_not_come_at_their_turn_stop_no_other_line() -> None:
    turns = Turns[str](1, 10.0)
    turns.take("all", "first", 0.0)
    for line in "abc":
        turns.wait("all", f"lost-{line}", 0.0, line=line)
    assert turns.wait("all", "here", 200.0, line="d") == 0.0
    assert len(turns) == 0
