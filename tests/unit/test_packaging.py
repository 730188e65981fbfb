"""What the wheel holds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files in it, built as `pip install` builds it."""
    folder = tmp_path_factory.mktemp("wheel")
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, timeout=50)
    (built,) = folder.iterdir()
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_wheel_holds_the_packages_that_run_and_nothing_else(wheel: set[str]) -> None:
    folders = {name.partition("/")[0] for name in wheel}
    assert {it for it in folders if not it.endswith(".dist-info")} == {
        "annotations",
        "scheduler",
        "slurmapi",
    }


def test_wheel_holds_all_of_each_package(wheel: set[str]) -> None:
    sources = {
        str(path.relative_to(_ROOT))
        for folder in ("annotations", "scheduler", "slurmapi")
        for path in (_ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "scheduler/execute/placeholder.sh" in sources
    assert sources <= wheel


def test_generators_of_pages_are_not_in_the_wheel(wheel: set[str]) -> None:
    generators = {path.name for path in (_ROOT / "docs/_make").glob("[!_]*.py")}
    assert generators
    assert {name for name in wheel if "_make" in name or name.startswith("docs/")} == set()
