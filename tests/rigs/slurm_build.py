"""Makes Debian chroots with Slurm once, and keeps them in the user's cache.

A chroot is never changed once it is made. Each instance writes into a directory of its own, so any
number of rigs can run from one chroot at a time. Debian sid carries Slurm 26.05, trixie 24.11.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rigs import accounting
from tests.rigs.debian import bootstrap
from tests.rigs.prerequisites import (
    PrerequisiteError,
    cache_directory,
    locked,
    need_root,
    recipe_key,
    run,
)

SUITES: Final = {"26.05": "sid", "24.11": "trixie"}

_PACKAGES: Final = (
    "slurmctld",
    "slurmd",
    "slurmrestd",
    "slurmdbd",
    "mariadb-server",
    "slurm-client",
    "slurm-wlm-jwt-plugin",
    "curl",
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
    'ln -s /rig/log/syslog.socket "$1/dev/log"',
    *accounting.CUSTOMIZE,
)


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

    Takes about a minute and 450 MB when it has to be made. Raises PrerequisiteError.
    """
    suite = SUITES[major]
    root = cache_directory() / f"slurm-{suite}-{recipe_key(suite, *_PACKAGES, *_CUSTOMIZE)}"
    need_root()
    with locked(root):
        if not root.is_dir():
            bootstrap(root, suite, _PACKAGES, variant="minbase", hooks=_CUSTOMIZE)
    made = Chroot(root, _version(root))
    if made.major != major:
        raise PrerequisiteError(
            f"Debian {suite} has Slurm {made.version} and the rig wants {major}: name another "
            f"suite in SUITES, and remove {root}"
        )
    return made


def _version(root: Path) -> str:
    return run(("chroot", str(root), "slurmctld", "-V")).split()[-1]
