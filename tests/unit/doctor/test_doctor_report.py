"""What the doctor prints, and what it never prints."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from scheduler.doctor import report
from scheduler.doctor.checks import CHECKS, run_checks
from scheduler.doctor.facts import Pair
from scheduler.doctor.finding import Finding, Group, Severity, plain
from tests.unit.doctor.facts import healthy, pair, slurm_node, with_pairs, with_slurm

PAGE = (Path(__file__).parents[3] / "docs/doctor.md").read_text()
FOUND = [
    Finding("token", Group.SLURM, Severity.WARNING, "it expires soon", "renew it"),
    Finding("clocks", Group.BOTH, Severity.OK, "they agree", ""),
]


def test_text_has_a_heading_for_each_group_and_a_remedy_below_its_finding() -> None:
    assert report.text(FOUND) == (
        "Slurm:\n"
        "  warning  token: it expires soon\n"
        "           -> renew it\n"
        "\n"
        "both:\n"
        "  ok       clocks: they agree\n"
        "\n"
        "error: 0, warning: 1, note: 0, ok: 1\n"
    )


def test_json_is_as_documented() -> None:
    found = json.loads(report.findings_as_json(FOUND))
    assert found == {
        "version": 1,
        "worst": "warning",
        "findings": [
            {
                "check": "token",
                "group": "slurm",
                "severity": "warning",
                "what": "it expires soon",
                "remedy": "renew it",
            },
            {
                "check": "clocks",
                "group": "both",
                "severity": "ok",
                "what": "they agree",
                "remedy": "",
            },
        ],
    }
    for key in ("version", "worst", "findings", *found["findings"][0]):
        assert f"`{key}`" in PAGE


def test_worst_of_nothing_is_ok() -> None:
    assert report.worst([]) is Severity.OK


def test_texts_of_servers_move_no_cursor_and_have_a_bounded_length() -> None:
    evil = "\x1b[2J\r\n\u202e" + "x" * 100_000
    facts = with_pairs(healthy(), [Pair(slurm_node(evil), "", evil), pair("a")])
    facts = with_slurm(facts, cluster=evil, nodes=(slurm_node(evil, states=frozenset({"DOWN"})),))
    printed = report.text(run_checks(facts))
    assert all(line.isprintable() for line in printed.splitlines())
    assert len(printed) < 20_000


@given(st.text())
def test_any_text_becomes_one_printable_line(text: str) -> None:
    assert plain(text).isprintable()


def test_names_of_checks_are_unlike_and_groups_stand_together() -> None:
    names = [it.name for it in CHECKS]
    assert len(set(names)) == len(names)
    groups = [it.group for it in CHECKS]
    assert groups == sorted(groups, key=list(Group).index)
    assert all(it.about.endswith(".") for it in CHECKS)
