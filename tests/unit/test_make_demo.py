"""`make demo` installs what the scheduler needs, and nothing that only tests and lint need."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).parents[2]
_PIN: Final = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)


def planned(venv: Path) -> str:
    """What `make demo` would do with that virtual environment."""
    command = ("make", "--dry-run", "demo", f"VENV={venv}")
    # The tests themselves may run below make, which hands its flags on.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        command, cwd=_ROOT, env=own, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


def pins(name: str) -> dict[str, str]:
    """The packages of a lock file with their versions."""
    return dict(_PIN.findall((_ROOT / "requirements" / name).read_text(encoding="utf-8")))


def test_fresh_clone_gets_no_tools_of_developers(tmp_path: Path) -> None:
    plan = planned(tmp_path / "venv")
    assert set(re.findall(r"-r requirements/(\w+)", plan)) == {"runtime", "build"}
    assert plan.splitlines()[-1].endswith("slurm-pod-scheduler demo ")


def test_environment_of_a_developer_is_used_as_it_is(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / ".installed").touch()
    assert "pip install" not in planned(venv)


def test_what_builds_the_package_is_locked_once() -> None:
    build, dev = pins("build.txt"), pins("dev.txt")
    assert {"hatchling", "editables"} <= build.keys()
    assert build.items() <= dev.items()
    assert not build.keys() & pins("runtime.txt").keys()
