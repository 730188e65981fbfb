"""I6: how many answers prove that a job is gone is said in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scheduler.core.doubt import ENOUGH, FIRST, is_gone, wants_another

_ROOT = Path(__file__).parents[3] / "scheduler"


def test_a_doubt_and_two_looks_that_agree_are_needed() -> None:
    assert [is_gone(count) for count in range(5)] == [False, False, False, True, True]
    assert ENOUGH - FIRST == 2


def test_another_look_is_wanted_only_while_in_doubt() -> None:
    assert [wants_another(count) for count in range(5)] == [False, True, True, False, False]


def _bare_counts(source: str) -> list[str]:
    """Comparisons of what was missed so often with a number other than none at all."""
    return [
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Attribute)
        and node.left.attr == "missing"
        and any(isinstance(it, ast.Constant) and it.value != 0 for it in node.comparators)
    ]


@pytest.mark.parametrize("breach", ["job.missing > 2", "unit.job.missing == 1", "it.missing < 3"])
def test_bare_number_is_noticed(breach: str) -> None:
    assert _bare_counts(f"if {breach}: pass") == [breach]


def test_no_other_module_has_a_number_of_its_own() -> None:
    found = {
        str(path.relative_to(_ROOT)): bare
        for path in _ROOT.rglob("*.py")
        if (bare := _bare_counts(path.read_text()))
    }
    assert not found
