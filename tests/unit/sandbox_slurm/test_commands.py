"""The parts of the sandbox's squeue, sinfo, scancel and sbatch that need no server."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from scheduler.sandbox.tools import formats, sbatch, sinfo, squeue, times
from scheduler.sandbox.tools.__main__ import main


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (309, "5:09"), (3723, "1:02:03"), (176_523, "2-01:02:03"), (-5, "0:00")],
)
def test_duration_is_written_as_squeue_writes_it(seconds: int, text: str) -> None:
    assert times.span(seconds) == text


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("2:30", 3), ("1:30:00", 90), ("1-2", 1560), ("1-2:30", 1590), ("0-0:0:1", 1)],
)
def test_time_limit_is_read_as_sbatch_reads_it(text: str, minutes: int) -> None:
    assert times.minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "x", "1:2:3:4", "-1", "1-", "٣"])
def test_time_limit_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - sbatch names the option and the text
        times.minutes(text)


def test_fields_have_their_width_and_side() -> None:
    layout = formats.fields("%.5a|%4b %#c %d", "abcd")
    rows = [["1", "abcdefg", "x", "y"], ["22", "b", "long", "z"]]
    assert formats.lines(layout, rows) == ["    1|abcd x    y", "   22|b    long z"]


def test_width_that_no_line_has_is_cut() -> None:
    (field,) = formats.fields("%.99999999999a", "a")
    assert formats.lines([field], [["x"]])[0].strip() == "x"


@pytest.mark.parametrize("text", ["foo", "2-", "-1", "", "1-x"])
def test_count_of_nodes_that_is_none_is_refused(text: str, capsys) -> None:
    with pytest.raises(SystemExit):
        sbatch._parser().parse_args([f"--nodes={text}"])
    assert "Invalid --nodes specification" in capsys.readouterr().err


def test_closed_output_is_told(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["tools", "http://127.0.0.1:9", "/dev/null", "squeue"])
    monkeypatch.setattr("sys.stdout", None)
    assert main() == 1
    assert capsys.readouterr().err == "squeue: error: standard output is closed\n"


@pytest.mark.parametrize("text", ["%z", "no field"])
def test_format_that_is_not_known_names_what_is(text: str) -> None:
    with pytest.raises(formats.FormatError, match="expected some of %a"):
        formats.fields(text, "ab")


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["PENDING"], "PENDING"),
        (["RUNNING", "CONFIGURING"], "CONFIGURING"),
        (["CANCELLED", "COMPLETING"], "COMPLETING"),
    ],
)
def test_flag_of_a_job_comes_before_its_state(words: list[str], state: str) -> None:
    assert squeue.state({"job_state": words}) == state


def test_jobs_are_in_the_order_that_is_asked_for() -> None:
    jobs: list[dict[str, Any]] = [
        {"job_id": number, "priority": {"set": True, "infinite": False, "number": priority}}
        for number, priority in ((3, 10), (1, 20), (2, 10))
    ]
    assert [it["job_id"] for it in squeue.ordered(jobs, "-p")] == [1, 2, 3]
    assert [it["job_id"] for it in squeue.ordered(jobs, "p,-i")] == [3, 2, 1]


def test_state_of_a_job_that_is_not_known_is_refused() -> None:
    assert squeue.states("pd,RUNNING") == {"PENDING", "RUNNING"}
    with pytest.raises(argparse.ArgumentTypeError, match="WAITING"):
        squeue.states("waiting")


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (["IDLE"], "IDLE"),
        (["MIXED", "DRAIN"], "DRAINING"),
        (["IDLE", "DRAIN"], "DRAINED"),
        (["IDLE", "COMPLETING"], "COMPLETING"),
        (["IDLE", "PLANNED"], "PLANNED"),
        (["MIXED", "PLANNED"], "MIXED"),
    ],
)
def test_state_of_a_node_is_one_word(words: list[str], state: str) -> None:
    assert sinfo.state({"state": words}) == state


def test_options_in_a_script_end_with_its_first_command() -> None:
    script = "#!/bin/sh\n#SBATCH -n 2 --mem=1G # two\n\n# a remark\nsleep 1\n#SBATCH -p x\n"
    assert sbatch._directives(script) == ["-n", "2", "--mem=1G"]
