"""The scheduler of an older commit, which a test of an upgrade replaces by the present one.

It has a virtual environment of its own in the cache of the rigs, with the versions that its lock
file names.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.rigs.prerequisites import (
    PrerequisiteError,
    announced,
    cache_directory,
    locked,
    recipe_key,
    run,
)
from tests.rigs.process import Daemon
from tests.support.own_clock import Executed

COMMIT: Final = "8810b89466d7522e4064588cbf84b62f1d776aa2"
"""The last one that wrote owner tags without `grace`, and paths as their author spelled them."""
_ROOT: Final = Path(__file__).parents[2]
_LOCK: Final = "requirements/runtime.txt"
_SHIPPED: Final = ("annotations", "scheduler", "slurmapi", _LOCK)


class Former:
    """Launches the former scheduler with `python`, as tests.support.forked.spawn does ours."""

    def __init__(self, python: Path) -> None:
        self._python = python

    def __call__(self, arguments: Sequence[str], *, log: Path) -> Executed:
        # -P, because the folder of the tests has packages of the same names.
        command = (str(self._python), "-P", "-m", "scheduler", *arguments)
        return Executed(Daemon(command, log=log))


MISSING: Final = (
    f"the upgrade starts from commit {COMMIT}, which git does not find here; in a shallow clone"
    f" `git fetch --depth=1 origin {COMMIT}` gets it"
)


def is_known() -> bool:
    """Whether git has that commit. An archive has no commits, a shallow clone only a few."""
    if shutil.which("git") is None:
        return False
    commit = f"{COMMIT}^{{commit}}"
    asked = ("git", "-C", str(_ROOT), "cat-file", "-e", commit)
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def ensure() -> Former:
    """The former scheduler, taken from the cache or built now in about 20 s.

    Raises PrerequisiteError if git does not find the commit, or a package is not available.
    """
    home = cache_directory() / f"former-{COMMIT[:7]}-{recipe_key(COMMIT, sys.version)}"
    with locked(home):
        if not home.is_dir():
            with announced(f"installing the scheduler of commit {COMMIT[:7]}"):
                _make(home)
    return Former(_python(home))


def _make(home: Path) -> None:
    partial = home.with_name(home.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    venv.create(partial)
    packages = _packages(partial)
    _unpack(packages)
    pip = (sys.executable, "-m", "pip", "--python", str(_python(partial)))
    quietly = ("--quiet", "--disable-pip-version-check")
    run((*pip, "install", *quietly, "--require-hashes", "-r", str(packages / _LOCK)))
    partial.rename(home)


def _unpack(folder: Path) -> None:
    archive = folder / "former.zip"
    if not is_known():
        raise PrerequisiteError(MISSING)
    git = ("git", "-C", str(_ROOT), "archive", "--format=zip", f"--output={archive}")
    run((*git, COMMIT, *_SHIPPED))
    shutil.unpack_archive(archive, folder)
    archive.unlink()


def _python(home: Path) -> Path:
    return home / "bin" / "python"


def _packages(home: Path) -> Path:
    (found,) = home.glob("lib/python*/site-packages")
    return found
