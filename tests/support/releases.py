"""Deselects live stories that run on one real release of Slurm only, or on neither: the mark
`live_on` names it.

A table in tests/README.md lists them, and says what covers the other release.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

MARK: Final = "live_on"
RELEASES: Final = frozenset({"26.05", "24.11"})
NEITHER: Final = "neither"


def leave_out_the_other_release(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect live tests for each release that their mark does not name."""
    left_out = [it for it in items if _is_of_the_other(it)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [it for it in items if it not in set(left_out)]


def _is_of_the_other(item: pytest.Item) -> bool:
    mark = item.get_closest_marker(MARK)
    if mark is None or item.get_closest_marker("live") is None:
        return False
    return any(f"live-{other}" in item.name for other in RELEASES - {mark.args[0]})


def marked(path: Path) -> dict[str, str]:
    """The marked release of each test of a file, by name; `*` stands for the whole file."""
    text, found = path.read_text(encoding="utf-8"), dict[str, str]()
    if MARK not in text:
        return found  # true of most files; parsing them all would take seconds
    for node in ast.walk(ast.parse(text)):
        name, marks = _place(node)
        for release in (it for mark in marks for it in _releases(mark)):
            found[name] = release
    return found


def _place(node: ast.AST) -> tuple[str, list[ast.expr]]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name, node.decorator_list
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
        return "*", [node.value]
    return "", []


def _releases(mark: ast.expr) -> Iterator[str]:
    for node in ast.walk(mark):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == f"pytest.mark.{MARK}":
            yield ast.literal_eval(node.args[0])
