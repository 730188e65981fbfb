"""Tables fit the terminal, and nothing of a pod moves its cursor."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.view.choice import Choice, order, ordered, states
from scheduler.view.printing import as_json, as_object, as_yaml
from scheduler.view.row import IN_QUEUE, State
from scheduler.view.safe_text import cut, shown, width
from scheduler.view.table import COLUMNS, NAMESPACE_COLUMN, WIDE_COLUMNS, Table, duration, memory
from tests.unit.view.pods import pod, row, waiting

ALL = (NAMESPACE_COLUMN, *COLUMNS, *WIDE_COLUMNS)
NOW = datetime(2026, 11, 24, 5, 30, tzinfo=UTC)
ROW = row(pod(status=waiting()))
EVIL = "\x1b[2J\x9b1m\r\n\t\x07\u202e\u2028\x7f"


def table(*rows: object, most: int | None = None, colour: bool = False) -> list[str]:
    return Table(ALL, most=most, colour=colour).lines(rows, NOW)  # type: ignore[arg-type]


def test_row_stands_below_its_headings() -> None:
    heading, line = Table(COLUMNS, most=None, colour=False).lines([ROW], NOW)
    assert heading.split() == [it.heading for it in COLUMNS]
    assert line.split() == [
        *("train", "PENDING", "Resources", "-", "gpu", "-", "100", "30m", "2", "2Gi", "1", "-")
    ]
    assert line.index("PENDING") == heading.index("STATE")
    assert line.index("100") + 3 == heading.index("PRIORITY") + len("PRIORITY")


def test_lines_that_are_added_stand_below_the_first() -> None:
    found = Table(COLUMNS, most=None, colour=False)
    heading, *_ = found.lines([replace(ROW, name="a-long-name")], NOW)
    (line,) = found.lines([ROW], NOW, heading=False)
    assert line.index("PENDING") == heading.index("STATE")


@given(
    text=st.text(max_size=400),
    name=st.sampled_from(["a", "n" * 253]),
    most=st.integers(1, 300),
)
def test_no_line_is_wider_than_the_terminal(text: str, name: str, most: int) -> None:
    evil = replace(ROW, name=name, reason=text, qos=text, message=text + EVIL)
    for line in table(ROW, evil, most=most):
        assert width(line) <= most
        assert line.isprintable()


def test_narrow_terminal_leaves_out_what_no_row_has_before_it_cuts() -> None:
    found = Table(COLUMNS, most=76, colour=False).lines([ROW, replace(ROW, job=7)], NOW)
    assert found[0].split() == [it.heading for it in COLUMNS if it.heading not in {"QOS", "NODE"}]
    assert not [line for line in found if "…" in line]


@given(text=st.text(max_size=50), columns=st.integers(1, 60))
def test_cut_text_fits_and_is_a_beginning(text: str, columns: int) -> None:
    found = cut(shown(text), columns)
    assert width(found) <= columns
    assert shown(text).startswith(found.removesuffix("…"))


def test_control_characters_are_shown_and_not_written() -> None:
    assert shown(EVIL).isprintable()
    assert shown("\x1b[2J") == r"\x1b[2J"
    assert shown("größer 木") == "größer 木"


def test_colour_is_only_at_the_state() -> None:
    line = table(ROW, colour=True)[1]
    assert "  \x1b[33mPENDING\x1b[0m" in line
    assert line.replace("\x1b[33m", "").replace("\x1b[0m", "") == table(ROW)[1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((-5, "0s"), (0, "0s"), (119.9, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h")),
        *((172_799, "47h"), (172_800, "2d"), (10**9, "11574d")),
    ],
)
def test_duration_has_one_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "0"), (1, "1Mi"), (1 << 29, "512Mi"), (1 << 30, "1Gi"), (3 << 29, "1.5Gi")],
)
def test_memory_is_shown_as_people_write_it(amount: int, text: str) -> None:
    assert memory(amount) == text


def test_forms_for_programs_keep_the_text_and_are_ascii() -> None:
    found = as_object(replace(ROW, qos=EVIL, message="é" + EVIL))
    assert json.loads(as_json(found)) == found
    assert yaml.safe_load(as_yaml(found)) == found
    for text in (as_json(found), as_yaml(found)):
        assert text.isascii()
        assert text.replace("\n", "").isprintable()
    assert found["created"] == "2026-11-24T05:00:00Z"
    assert (found["jobId"], found["node"], found["endsAt"]) == (None, None, None)


def test_rows_that_are_not_known_stand_last_in_either_direction() -> None:
    low, high, unknown = (replace(ROW, name=str(it), priority=it) for it in (1, 2, None))
    rows = [unknown, high, low]
    assert ordered(rows, order("priority")) == [low, high, unknown]
    assert ordered(rows, order("-priority")) == [high, low, unknown]


def test_order_is_that_of_the_columns_and_then_of_the_names() -> None:
    old = replace(ROW, name="z", created=NOW - timedelta(days=1))
    young, same = replace(ROW, name="b", created=NOW), replace(ROW, name="a", created=NOW)
    runs = replace(ROW, name="c", state=State.RUNNING)
    found = ordered([runs, young, same, old], order("state,-age"))
    assert [it.name for it in found] == ["z", "a", "b", "c"]


def test_states_have_squeues_names() -> None:
    assert states("pd, Running") == {State.PENDING, State.RUNNING}
    assert states("all") == frozenset(State)
    assert {State.COMPLETED, State.FAILED} & IN_QUEUE == set()


def test_pod_that_asks_for_several_partitions_is_in_each() -> None:
    asks = replace(ROW, partition="gpu,main")
    assert Choice(partitions=frozenset({"main"})).takes(asks)
    assert not Choice(partitions=frozenset({"other"})).takes(asks)
    assert not Choice().takes(replace(ROW, state=State.COMPLETED))
    assert not Choice().takes(None)
