"""Deselects stories on a release of Slurm that cannot change their result: the mark `live_on`
names the only real release on which a story runs, or `neither`. Of the two models, such a story
runs on the one of that release (of `neither`: the newer), unless the mark says `models="both"`.

A table in tests/README.md lists these stories, and says what covers the other release.
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
BOTH: Final = "both"
BOTH_MODELS: Final = ", both models"
_NEWER: Final = "26.05"


def leave_out_the_other_release(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests for each release that their mark does not name."""
    left_out = [it for it in items if _is_of_the_other(it)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [it for it in items if it not in set(left_out)]


def _is_of_the_other(item: pytest.Item) -> bool:
    mark = item.get_closest_marker(MARK)
    if mark is None:
        return False
    is_live = item.get_closest_marker("live") is not None
    return is_left_out(item.name, is_live, *mark.args, **mark.kwargs)


def is_left_out(name: str, is_live: bool, only: str, models: str = "") -> bool:
    """Whether the cluster in the name of a test is of a release that its mark leaves out."""
    if is_live:
        return any(f"live-{other}" in name for other in RELEASES - {only})
    if models == BOTH:
        return False
    kept = _NEWER if only == NEITHER else only
    return any(f"sandbox-{other}" in name for other in RELEASES - {kept})


def marked(path: Path) -> dict[str, str]:
    """The marked release of each test of a file, by name; `*` stands for the whole file. A comma
    and `both models` follow the release if the mark says so, as in the table.
    """
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
            both = any(it.arg == "models" for it in node.keywords)
            yield ast.literal_eval(node.args[0]) + (BOTH_MODELS if both else "")
