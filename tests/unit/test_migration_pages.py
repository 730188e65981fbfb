"""The pages about migrations name all words of the other schedulers, and lead to words of ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from annotations.keys import BY_KEY, DEFINITIONS
from scheduler.config.settings import Settings

DOCS = Path(__file__).parents[2] / "docs"
# All of slurm-bridge 1.3 (its documentation of annotations).
BRIDGE = {
    *("account", "constraints", "cpu-per-task", "exclusive", "gres", "group-id", "job-name"),
    *("licenses", "max-nodes", "mem-per-node", "min-nodes", "partition", "priority", "qos"),
    *("reservation", "timelimit", "user-id", "wckey"),
}
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
        ("migration-from-slurm-bridge.md", BRIDGE),
    ],
)
def test_every_annotation_of_theirs_has_a_row_that_leads_to_ours(page, theirs):
    found = rows(page, "Annotations")
    assert set(found) == theirs
    assert set(found.values()) - {"none"} <= set(BY_KEY)
    assert all(new == "none" for old, new in found.items() if old in {"max-nodes", "job-name"})


def test_every_flag_of_sunk_has_a_row_that_leads_to_ours():
    found = rows("migration-from-sunk.md", "Flags")
    assert set(found) == {f"--{flag}" for flag in SUNK_FLAGS}
    ours = {re.sub("^--", "", flag).replace("-", "_") for flag in found.values()}
    assert ours <= set(Settings.model_fields)


@pytest.mark.parametrize("page", ["migration-from-sunk.md", "migration-from-slurm-bridge.md"])
def test_page_says_first_where_annotations_belong(page: str) -> None:
    first = (DOCS / page).read_text(encoding="utf-8").partition("\n## ")[0]
    assert "Annotations belong on the pod template" in first
