"""The suite of benchmarks compares ratios and counts of two runs, and never seconds."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks import __main__ as suite
from benchmarks.suite.machine import described, this_machine
from benchmarks.suite.rows import READERS, Row, table, worse

BEFORE = {
    "ratio": Row(value=0.5, better="more", goal=0.8),
    "requests": Row(value=2.0, better="less", goal=2.1),
    "seconds": Row(value=1.0, unit="s"),
}


def test_what_is_worse_by_more_than_the_tolerance_is_named() -> None:
    now = {
        "ratio": Row(value=0.44, better="more"),
        "requests": Row(value=2.3, better="less"),
        "seconds": Row(value=9.0, unit="s"),
        "new": Row(value=5.0, better="less"),
    }
    assert list(worse(now, before=BEFORE, tolerance=0.1)) == [
        "ratio: 0.44, before 0.5",
        "requests: 2.3, before 2",
    ]
    assert list(worse(now, before=BEFORE, tolerance=0.2)) == []


@pytest.mark.parametrize(("ratio", "requests"), [(0.6, 1.0), (0.46, 2.19)])
def test_what_is_better_or_nearly_the_same_is_not(ratio: float, requests: float) -> None:
    now = {
        "ratio": Row(value=ratio, better="more"),
        "requests": Row(value=requests, better="less"),
    }
    assert list(worse(now, before=BEFORE, tolerance=0.1)) == []


def test_table_shows_the_former_value_and_whether_the_goal_is_reached() -> None:
    first, second, third = table(BEFORE, before={"ratio": Row(value=0.4)})
    assert first.split() == [
        "ratio",
        "0.5",
        "before",
        "0.4",
        "goal",
        ">=",
        "0.8:",
        "NOT",
        "reached",
    ]
    assert second.split() == ["requests", "2", "goal", "<=", "2.1:", "reached"]
    assert third.split() == ["seconds", "1", "s"]


def test_every_benchmark_of_the_suite_has_flags_for_both_lengths() -> None:
    assert suite._WHOLE.keys() == suite._SHORT.keys() == READERS.keys()


def test_stored_run_is_compared_and_a_worse_one_ends_with_status_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the figures of a benchmark that has run, instead of running it."""
    stored = suite.Suite(
        machine=this_machine(), servers="sandbox", benchmarks={"scale": []}, rows=dict(BEFORE)
    )
    path = tmp_path / "former.json"
    path.write_bytes(msgspec.json.encode(stored))
    slower = {"ratio": Row(value=0.3, better="more", goal=0.8)}
    monkeypatch.setattr(suite, "_figures", lambda *_: slower)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only=scale", f"--against={path}"])
    assert suite.main() == 1
    printed = capsys.readouterr().out
    assert "worse: ratio: 0.3, before 0.5" in printed
    assert described(stored.machine).splitlines()[0] in printed
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only=scale"])
    assert suite.main() == 0


@pytest.mark.parametrize("text", ["", "{}", '{"machine": 1}'])
def test_file_that_is_no_stored_run_is_refused_in_words(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "former.json"
    path.write_text(text)
    monkeypatch.setattr(sys, "argv", ["benchmarks", f"--against={path}"])
    with pytest.raises(SystemExit):
        suite.main()
    assert f"{path} is no stored run" in capsys.readouterr().err
