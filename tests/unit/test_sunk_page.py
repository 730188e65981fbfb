"""The page about SUNK names tests, annotations and flags that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from annotations.keys import DEFINITIONS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/sunk-compatibility.md").read_text(encoding="utf-8")


def rows(section: str) -> list[str]:
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def functions(folder: Path) -> set[str]:
    return {
        it.name
        for path in folder.glob("**/test_*.py")
        for it in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def test_what_was_seen_on_real_servers_names_a_test_that_runs_there():
    real = {
        it
        for kind in ("stories", "contract", "admission")
        for it in functions(ROOT / "tests" / kind)
    }
    for section in ("What a pod must be", "What SUNK's users miss"):
        for row in rows(section):
            if row.rstrip(" |").endswith("real") and "`tests/contract`" not in row:
                assert real & set(re.findall(r"`(test_\w+)`", row)), row


def test_every_annotation_of_sunk_has_its_row():
    named = [row.split("`")[1] for row in rows("Annotations")]
    assert named == sorted(it.key for it in DEFINITIONS if it.sunk)
