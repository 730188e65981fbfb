"""Debian chroots with Slurm in them, made once and kept in the user's cache.

A chroot is never written after it was made: what an instance writes lies in its own directory, so
any number of rigs run from one chroot at a time. Debian sid carries Slurm 26.05, trixie 24.11.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUITES: Final = {"26.05": "sid", "24.11": "trixie"}

_PACKAGES: Final = (
    "slurmctld",
    "slurmd",
    "slurmrestd",
    "slurm-client",
    "slurm-wlm-jwt-plugin",
    "procps",
    "python3-minimal",
)
# The name of every server's host inside a rig, and two ordinary users. The directories are where
# an instance's own files are mounted.
_CUSTOMIZE: Final = (
    'printf "127.0.0.1 localhost rig\\n" > "$1/etc/hosts"',
    'chroot "$1" useradd --uid 2001 --no-create-home alice',
    'chroot "$1" useradd --uid 2002 --no-create-home bob',
    'mkdir -p "$1/rig" "$1/etc/slurm"',
)
_BUILD_SECONDS: Final = 900


class PrerequisiteError(RuntimeError):
    """Something the live tier needs is not on this machine; the text says how to get it."""


@dataclass(frozen=True, slots=True)
class Chroot:
    """A Slurm of one version, ready to run: `version` as in "26.05.5"."""

    root: Path
    version: str

    @property
    def major(self) -> str:
        """Year and month of the release, as in "26.05"."""
        return ".".join(self.version.split(".")[:2])


def ensure(major: str) -> Chroot:
    """The chroot with Slurm `major` ("26.05" or "24.11"), made now if it is not in the cache.

    Takes about 30 s and 200 MB when it has to be made. Raises PrerequisiteError.
    """
    suite = SUITES[major]
    root = _cache() / f"slurm-{suite}-{_recipe_key(suite)}"
    root.parent.mkdir(parents=True, exist_ok=True)
    _need_root()
    with _locked(root.with_name(root.name + ".lock")):
        if not root.is_dir():
            _make(suite, root)
    made = Chroot(root, _version(root))
    if made.major != major:
        raise PrerequisiteError(
            f"Debian {suite} has Slurm {made.version} and the rig wants {major}: name another "
            f"suite in SUITES, and remove {root}"
        )
    return made


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "slurm-pod-scheduler"


def _recipe_key(suite: str) -> str:
    recipe = "\n".join((suite, *_PACKAGES, *_CUSTOMIZE))
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _need_root() -> None:
    if os.geteuid() != 0:
        raise PrerequisiteError(
            "the Slurm rig makes chroots, mounts and namespaces: run the live tier as root"
        )


def _make(suite: str, root: Path) -> None:
    _need_mmdebstrap()
    partial = root.with_name(root.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    hooks = [f"--customize-hook={line}" for line in _CUSTOMIZE]
    _run(
        (
            "mmdebstrap",
            "--variant=minbase",
            "--mode=root",
            '--aptopt=APT::Install-Recommends "false"',
            '--aptopt=Acquire::Check-Valid-Until "false"',
            "--include=" + ",".join(_PACKAGES),
            *hooks,
            suite,
            str(partial),
            _mirror(),
        )
    )
    partial.rename(root)


def _need_mmdebstrap() -> None:
    if shutil.which("mmdebstrap"):
        return
    if not shutil.which("apt-get"):
        raise PrerequisiteError(
            "mmdebstrap is missing and there is no apt-get to install it: the Slurm rig needs "
            "a Debian machine"
        )
    _run(("apt-get", "update"))
    _run(("apt-get", "install", "--yes", "--no-install-recommends", "mmdebstrap"))


def _mirror() -> str:
    """The Debian mirror this machine's own apt is set up with."""
    found = _debian_mirrors()
    if not found:
        _run(("apt-get", "update"))
        found = _debian_mirrors()
    if not found:
        raise PrerequisiteError(
            "apt has no source of Debian's own archive: name one in /etc/apt/sources.list.d"
        )
    return found[0]


def _debian_mirrors() -> list[str]:
    listing = _run(
        ("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages")
    )
    rows = (line.split() for line in listing.splitlines())
    return [row[1] for row in rows if len(row) == 2 and row[0] == "Debian"]


def _version(root: Path) -> str:
    return _run(("chroot", str(root), "slurmctld", "-V")).split()[-1]


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=_BUILD_SECONDS
    )
    if done.returncode != 0:
        raise PrerequisiteError(
            f"`{' '.join(command)}` failed with status {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return done.stdout
