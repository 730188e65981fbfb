"""The page of attacks names a test for each, a test of the cost where one is due, and where they
run.

That the tests which it names exist is seen by test_docs.py.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.releases import BOTH_MODELS, marked
from tests.unit.test_threat_model import rows

_ROOT: Final = Path(__file__).parents[2]
_PAGE: Final = (_ROOT / "docs/isolation.md").read_text(encoding="utf-8")
_COSTLY: Final = ("Taking time, memory or requests from others", "Ports, servers and files")
_OTHER: Final = (
    "Touching jobs of others, or outstaying an ending",
    "Faults that would stay unseen",
)
_PLACES: Final = ("unit", "models", "24.11", "26.05", "Kubernetes")
_TEST: Final = re.compile(r"`(test_\w+)`")
_DEFINED: Final = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
_RELEASES: Final = {"24.11": ("live-24.11", "live_24"), "26.05": ("live-26.05", "live_26")}


def _table(heading: str) -> list[list[str]]:
    return rows(re.split(r"\n## ", _PAGE.partition(f"\n## {heading}\n")[2])[0])


@cache
def _files() -> dict[str, list[Path]]:
    """Which files have a test of that name."""
    found: dict[str, list[Path]] = {}
    for path in sorted((_ROOT / "tests").glob("**/test_*.py")):
        for name in _DEFINED.findall(path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(path)
    return found


@cache
def _where(path: Path, test: str) -> frozenset[str]:
    """Where a test runs: the cluster is that of its file, or else of its folder, without the
    release that a mark leaves out.
    """
    marks = marked(path)
    only = (marks.get(test) or marks.get("*", "")).removesuffix(BOTH_MODELS)
    return frozenset(_where_all(path) - ({*_RELEASES} - {only} if only else set()))


@cache
def _where_all(path: Path) -> frozenset[str]:
    folder, text = path.relative_to(_ROOT / "tests").parts[0], path.read_text(encoding="utf-8")
    live_only = re.search(r"^pytestmark = .*\bpytest\.mark\.live\b", text, re.MULTILINE)
    models = set() if live_only else {"models"}
    if folder in {"admission", "deploy"}:
        return frozenset({"Kubernetes"})
    if path.parent.name == "kube" and folder == "contract":
        return frozenset(models | {"Kubernetes"})
    if folder in {"stories", "contract"}:
        return frozenset(models | _releases(text))
    return frozenset({"models"} if folder in {"faults", "crash"} else {"unit"})


def _releases(text: str) -> set[str]:
    own = re.search(r"^cluster = told_on\((.*)\)|^def cluster\((.*)\)", text, re.MULTILINE)
    if own is None or "*LIVE" in own[0]:
        return set(_RELEASES)
    return {it for it, names in _RELEASES.items() if any(name in own[0] for name in names)}


@pytest.mark.parametrize("heading", [*_COSTLY, *_OTHER])
def test_attack_names_its_tests_and_where_they_run(heading: str) -> None:
    table = _table(heading)
    assert len(table) > 6
    for attack, _bound, *shown, seen in table:
        assert all(_TEST.search(cell) for cell in shown), attack
        tests = [it for cell in shown for it in _TEST.findall(cell)]
        places = frozenset[str]().union(
            *(_where(path, it) for it in tests for path in _files()[it])
        )
        assert seen == ", ".join(it for it in _PLACES if it in places), attack


@pytest.mark.parametrize("heading", _COSTLY)
def test_attack_has_a_test_of_its_cost(heading: str) -> None:
    for row in _table(heading):
        assert len(row) == 5, row[0]
        assert _TEST.search(row[3]), row[0]
