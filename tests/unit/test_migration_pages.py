"""The pages about migrations name all words of the other schedulers, and lead to words of ours."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from annotations.keys import BY_KEY, DEFINITIONS
from scheduler.__main__ import main
from scheduler.config.settings import Settings
from scheduler.migrate.bridge import ROWS
from scheduler.migrate.values import BRIDGE

DOCS = Path(__file__).parents[2] / "docs"
SUNK_FLAGS = {
    *("scheduler-name", "watch-namespace", "slurm-kill-wait", "slurm-api-base"),
    *("slurm-auth-token", "hooks-api-bind-address", "health-probe-bind-address"),
    *("metrics-bind-address", "zap-log-level", "components"),
}


def rows(page: str, heading: str) -> dict[str, str]:
    """The first two columns of the table below a heading."""
    text = (DOCS / page).read_text(encoding="utf-8")
    section = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [
        [it.strip() for it in row.split("|")[1:3]] for row in section.splitlines() if row[:1] == "|"
    ]
    return {old.strip("`"): new.strip("`") for old, new in lines[2:]}


@pytest.mark.parametrize(
    ("page", "theirs"),
    [
        ("migration-from-sunk.md", {it.key for it in DEFINITIONS if it.sunk}),
        ("migration-from-slurm-bridge.md", set(ROWS)),
    ],
)
def test_every_annotation_of_theirs_has_a_row_that_leads_to_ours(page, theirs):
    found = rows(page, "Annotations")
    assert set(found) == theirs
    assert set(found.values()) - {"none"} <= set(BY_KEY)


def test_table_of_slurm_bridge_leads_where_the_command_leads():
    found = rows("migration-from-slurm-bridge.md", "Annotations")
    assert found == {old: row.ours or "none" for old, row in ROWS.items()}


def test_table_of_values_names_what_the_command_tells_of():
    found = rows("migration-from-slurm-bridge.md", "Configuration and values")
    told = {re.sub("`.*", "", key) for key in found}
    assert {key for key in BRIDGE if not any(key in it for it in found)} == set(), told


def test_command_does_to_the_example_what_the_page_shows(tmp_path, monkeypatch, capfdbinary):
    page = (DOCS / "migration-from-slurm-bridge.md").read_text(encoding="utf-8")
    (tmp_path / "train.yaml").write_text(block(page, "yaml"))
    monkeypatch.chdir(tmp_path)
    assert main(["migrate", "train.yaml"]) == 1
    sys.stdout.flush()
    out, err = capfdbinary.readouterr()
    assert out.decode() == block(page, "diff")
    assert err.decode() == block(page, "text")


def block(page: str, language: str) -> str:
    """The first fenced block of that language."""
    return page.partition(f"\n```{language}\n")[2].partition("```\n")[0]


def test_every_flag_of_sunk_has_a_row_that_leads_to_ours():
    found = rows("migration-from-sunk.md", "Flags")
    assert set(found) == {f"--{flag}" for flag in SUNK_FLAGS}
    ours = {re.sub("^--", "", flag).replace("-", "_") for flag in found.values()}
    assert ours <= set(Settings.model_fields)


@pytest.mark.parametrize("page", ["migration-from-sunk.md", "migration-from-slurm-bridge.md"])
def test_page_says_first_where_annotations_belong(page: str) -> None:
    first = (DOCS / page).read_text(encoding="utf-8").partition("\n## ")[0]
    assert "Annotations belong on the pod template" in first
