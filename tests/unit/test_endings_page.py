"""The table of endings and the stories that tell them are the same."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from docs._make.endings import POD_ENDS, SLURM_ENDS
from scheduler.core.event_reasons import MEANINGS

STORIES = Path(__file__).parents[1] / "stories"
CASES = (*SLURM_ENDS, *POD_ENDS)


@cache
def stories_in(path: Path) -> frozenset[str]:
    names = {
        it.name
        for it in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    return frozenset(name for name in names if name.startswith("test_"))


@pytest.mark.parametrize("case", CASES, ids=[case.happens for case in CASES])
def test_case_is_told_by_stories_that_exist(case):
    everywhere = set().union(*map(stories_in, STORIES.glob("test_*.py")))
    assert case.stories
    assert set(case.stories) <= everywhere


@pytest.mark.parametrize("name", ["test_slurm_endings.py", "test_pod_endings.py"])
def test_story_of_an_ending_has_its_row(name):
    told = {story for case in CASES for story in case.stories}
    assert stories_in(STORIES / name) <= told


def test_pod_that_goes_because_of_slurm_bears_a_reason_of_its_own_kind():
    for case in SLURM_ENDS:
        if case.reason is not None and "deleted" in case.pod:
            assert MEANINGS[case.reason].condition == "DisruptionTarget", case.happens
