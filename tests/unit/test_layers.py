"""The contracts of imports in pyproject.toml bite, and the pure packages are pure."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

_ROOT: Final = Path(__file__).parents[2]
_TOOLS: Final = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]
_CONTRACTS: Final[list[dict[str, Any]]] = _TOOLS["importlinter"]["contracts"]
_LINT: Final = "from importlinter.cli import lint_imports_command; lint_imports_command()"

# By the id of the contract: modules, and what each must not import.
_BREACHES: Final = {
    "rooms": [
        ("scheduler.core.facts", "scheduler.state.units"),
        ("scheduler.slurm.restarts", "scheduler.nodes.candidates"),
        ("scheduler.facts.list_lengths", "scheduler.hooks.pem"),
        ("scheduler.sandbox.cluster", "scheduler.observe.clock"),
    ],
    "libraries": [
        ("slurmapi.errors", "annotations.keys"),
        ("annotations.keys", "scheduler.core.intervals"),
        ("groundwork.files", "slurmapi.errors"),
    ],
    "circles": [("scheduler.slurm.restarts", "scheduler.slurm.slurmctld")],
    "pure": [
        ("scheduler.core.decide", "random"),
        ("scheduler.core.lease", "time"),
        ("scheduler.core.edits", "groundwork.files"),  # which opens them
        ("annotations.parse", "os"),
    ],
    "kubernetes": [
        ("scheduler.execute.dispatch", "kubernetes_asyncio"),
        ("slurmapi.client", "kubernetes_asyncio"),
    ],
    "sandbox": [("scheduler.sandbox.main", "slurmapi")],
    "shipped": [("scheduler.service.app", "scheduler.sandbox.cluster")],
}
_UNPLACED: Final = "scheduler.attic"
# Clocks that need no import of a forbidden module, and what needs no import at all.
_OUTSIDE: Final = {"now", "today", "utcnow", "__import__", "input", "open", "print"}
_IMPURE: Final = {
    "async def f(): pass",
    "async def f(): await g()",
    "datetime.now(UTC)",
    "date.today()",
    "clock = datetime.now",
    "open('file')",
    "print('words')",
    "__import__('time')",
}


def _lint(folder: Path) -> dict[str, str]:
    """What is reported of each broken contract, by its name."""
    command = (sys.executable, "-c", _LINT, "--no-cache", "--no-logo")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    names = "|".join(re.escape(it["name"]) for it in _CONTRACTS)
    parts = re.split(rf"^({names})\n-+\n", done.stdout, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A copy of the packages in which every breach is planted."""
    copy = tmp_path_factory.mktemp("breaches")
    shutil.copy(_ROOT / "pyproject.toml", copy)
    for package in ("annotations", "groundwork", "scheduler", "slurmapi"):
        shutil.copytree(_ROOT / package, copy / package, ignore=shutil.ignore_patterns("*.pyc"))
    for module, imported in [it for breaches in _BREACHES.values() for it in breaches]:
        with _source(copy, module).open("a") as source:
            source.write(f"\nimport {imported}\n")
    _source(copy, _UNPLACED).touch()
    return _lint(copy)


def _source(folder: Path, module: str) -> Path:
    return folder.joinpath(*module.split(".")).with_suffix(".py")


def test_every_contract_is_tried() -> None:
    assert {it["id"] for it in _CONTRACTS} == set(_BREACHES)


@pytest.mark.parametrize("contract", _CONTRACTS, ids=lambda it: it["id"])
def test_breach_of_contract_is_reported(contract: dict[str, Any], broken: dict[str, str]) -> None:
    report = broken[contract["name"]]
    planted = [_shown(contract["type"], *breach) for breach in _BREACHES[contract["id"]]]
    assert [it for it in planted if it not in report] == [], report


def _shown(kind: str, module: str, imported: str) -> str:
    if kind == "acyclic_siblings":  # names any one import of the circle
        return f"No cycles are allowed in {module.rpartition('.')[0]}."
    return f"{module} -> {imported}"


def test_room_without_a_place_is_reported(broken: dict[str, str]) -> None:
    assert _UNPLACED in broken["each room imports only rooms below it"]


def _impurities(source: str) -> Iterator[int]:
    """Lines that wait, ask a clock, or reach outside without an import."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.AsyncFunctionDef() | ast.Await():
                yield node.lineno
            case ast.Attribute(attr=name) if name in _OUTSIDE:
                yield node.lineno
            case ast.Call(func=ast.Name(id=name)) if name in _OUTSIDE:
                yield node.lineno


@pytest.mark.parametrize("source", sorted(_IMPURE))
def test_impurity_is_found(source: str) -> None:
    assert list(_impurities(source))


def test_core_and_annotations_neither_wait_nor_ask_a_clock() -> None:
    found = [
        f"{path.relative_to(_ROOT)}:{line}"
        for folder in ("annotations", "scheduler/core")
        for path in sorted((_ROOT / folder).rglob("*.py"))
        for line in _impurities(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_page_shows_the_rooms_in_the_order_of_the_layers() -> None:
    (layers,) = (it["layers"] for it in _CONTRACTS if it["id"] == "rooms")
    page = (_ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = page.partition("\n## Rooms\n")[2].partition("\n##")[0].splitlines()
    shown = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in rows if row.startswith("| `")]
    assert shown == [layer.split(" | ") for layer in layers]
