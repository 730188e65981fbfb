"""What the wheel holds, and what it says that it needs."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

import scheduler

_ROOT: Final = Path(__file__).parents[2]
_OURS: Final = ("annotations", "groundwork", "scheduler", "slurmapi")
_REPEATING: Final = (
    "deploy/helm/slurm-pod-scheduler/Chart.yaml",
    "deploy/manifests/deployment.yaml",
    "deploy/manifests/deployment-namespaced.yaml",
    "deploy/examples/kustomize/kustomization.yaml",
)
# Not the chart's own `version`, which goes up by itself.
_VERSION: Final = re.compile(
    r"(?:appVersion|newTag|app\.kubernetes\.io/version|image): "
    r"\"?(?:slurm-pod-scheduler:)?(\d[\w.-]*)"
)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel, built as `pip install` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, timeout=150)
    (built,) = folder.iterdir()
    with zipfile.ZipFile(built) as archive:
        yield archive


@pytest.fixture(scope="module")
def wheel(archive: zipfile.ZipFile) -> set[str]:
    """The files in it."""
    return set(archive.namelist())


def test_wheel_holds_the_packages_that_run_and_nothing_else(wheel: set[str]) -> None:
    folders = {name.partition("/")[0] for name in wheel}
    assert {it for it in folders if not it.endswith(".dist-info")} == set(_OURS)


def test_wheel_holds_all_of_each_package(wheel: set[str]) -> None:
    sources = {
        str(path.relative_to(_ROOT))
        for folder in _OURS
        for path in (_ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "scheduler/execute/placeholder.sh" in sources
    assert sources <= wheel


def test_wheel_has_the_command_and_the_plugin_for_kubectl(archive: zipfile.ZipFile) -> None:
    (name,) = (it for it in archive.namelist() if it.endswith(".dist-info/entry_points.txt"))
    lines = archive.read(name).decode().splitlines()
    assert "slurm-pod-scheduler = scheduler.__main__:main" in lines
    assert "kubectl-slurm = scheduler.__main__:plugin" in lines


def test_generators_of_pages_are_not_in_the_wheel(wheel: set[str]) -> None:
    generators = {path.name for path in (_ROOT / "docs/_make").glob("[!_]*.py")}
    assert generators
    assert {name for name in wheel if "_make" in name or name.startswith("docs/")} == set()


def test_version_is_written_by_hand_in_one_module() -> None:
    about = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in about["project"]
    assert about["tool"]["hatch"]["version"]["path"] == "scheduler/__init__.py"


@pytest.mark.parametrize("name", _REPEATING)
def test_file_that_repeats_the_version_repeats_the_right_one(name: str) -> None:
    found = _VERSION.findall((_ROOT / name).read_text(encoding="utf-8"))
    assert found
    assert set(found) == {scheduler.__version__}


def test_newest_part_of_the_changelog_is_about_this_version() -> None:
    text = (_ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[(.+?)\]", text, re.MULTILINE)
    assert newest is not None
    assert newest[1] == scheduler.__version__


def _imported(source: str) -> Iterator[str]:
    """The top-level packages that a module imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (it.name.partition(".")[0] for it in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module.partition(".")[0]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_packages_that_are_declared_are_those_that_are_imported() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    sources = (path for folder in _OURS for path in (_ROOT / folder).rglob("*.py"))
    imported = {
        name for path in sources for name in _imported(path.read_text(encoding="utf-8"))
    } - {*_OURS, *sys.stdlib_module_names}
    providers = importlib.metadata.packages_distributions()
    assert sorted(imported - providers.keys()) == []
    needed = {_plain(it) for name in imported for it in providers[name]}
    assert {_plain(Requirement(it).name) for it in project["dependencies"]} == needed
    assert "optional-dependencies" not in project
