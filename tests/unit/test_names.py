"""A name of a class means one thing.

The sandbox stands apart: it is a peer on the wire, and gives the things of Slurm and Kubernetes
their own names, as the scheduler does.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_SANDBOX: Final = _ROOT / "scheduler" / "sandbox"
_ROOTS: Final = {
    "the scheduler and its libraries": ("scheduler", "annotations", "slurmapi", "groundwork"),
    "the sandbox's Slurm": ("scheduler/sandbox/slurm",),
    "the sandbox's Kubernetes": ("scheduler/sandbox/kube",),
}


def _classes(text: str) -> set[str]:
    found = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)}
    return {name for name in found if not name.startswith("_")}


def _twice(files: dict[str, str]) -> dict[str, list[str]]:
    """The names that more than one of these files gives to a class."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path, text in sorted(files.items()):
        for name in _classes(text):
            places[name].append(path)
    return {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.parametrize("folders", _ROOTS.values(), ids=_ROOTS)
def test_no_name_of_a_class_is_given_twice(folders: tuple[str, ...]) -> None:
    paths = [path for folder in folders for path in (_ROOT / folder).rglob("*.py")]
    if "scheduler" in folders:
        paths = [path for path in paths if not path.is_relative_to(_SANDBOX)]
    files = {str(path.relative_to(_ROOT)): path.read_text() for path in paths}
    assert len(files) > 10
    assert _twice(files) == {}


def test_a_name_that_is_given_twice_is_found() -> None:
    files = {"a.py": "class It: ...\nclass _Own: ...", "b.py": "class It: ...\nclass _Own: ..."}
    assert _twice(files) == {"It": ["a.py", "b.py"]}
