"""Unpacks Debian packages into directories of their own, without installing them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from tests.rigs.prerequisites import (
    PrerequisiteError,
    announced,
    cache_directory,
    locked,
    recipe_key,
    run,
)


def unpack(suite: str, packages: Sequence[str], *, binary: str) -> Path:
    """The directory with `packages` of a Debian suite unpacked, from the cache or made now.

    Nothing is installed on the machine, so no service starts and nothing is replaced. `binary` is a
    path in the directory that must run here. Takes about 6 s and 70 to 170 MB when it has to be
    made. Raises PrerequisiteError.
    """
    root = cache_directory() / f"debian-{suite}-{recipe_key(suite, *packages)}"
    with locked(root):
        if not root.is_dir():
            with announced(f"unpacking {', '.join(packages)} of Debian {suite}"):
                bootstrap(root, suite, packages, variant="extract")
    run((str(root / binary), "--version"))
    return root


def bootstrap(
    root: Path,
    suite: str,
    packages: Sequence[str],
    *,
    variant: Literal["extract", "minbase"],
    hooks: Sequence[str] = (),
) -> None:
    """Make `root` completely or not at all: "extract" only unpacks, "minbase" installs a system.

    `hooks` are shell commands run at the end with the directory as $1. Raises PrerequisiteError.
    """
    need_program("mmdebstrap")
    partial = root.with_name(root.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    run(
        (
            "mmdebstrap",
            f"--variant={variant}",
            "--mode=root",
            '--aptopt=APT::Install-Recommends "false"',
            '--aptopt=Acquire::Check-Valid-Until "false"',
            "--include=" + ",".join(packages),
            *(f"--customize-hook={line}" for line in hooks),
            suite,
            str(partial),
            _mirror(),
        )
    )
    partial.rename(root)


def need_program(name: str) -> None:
    """Install the Debian package `name` unless its program is there. Raises PrerequisiteError."""
    if shutil.which(name):
        return
    if not shutil.which("apt-get"):
        raise PrerequisiteError(
            f"{name} is missing and there is no apt-get to install it: the live tier needs a "
            "Debian machine"
        )
    with announced(f"installing {name}"):
        run(("apt-get", "update"))
        run(("apt-get", "install", "--yes", "--no-install-recommends", name))


def _mirror() -> str:
    """The Debian mirror that apt uses on this machine."""
    if not (found := _debian_mirrors()):
        run(("apt-get", "update"))
        found = _debian_mirrors()
    if not found:
        raise PrerequisiteError(
            "apt has no source of Debian's own archive: name one in /etc/apt/sources.list.d"
        )
    return found[0]


def _debian_mirrors() -> list[str]:
    listing = run(
        ("apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages")
    )
    rows = (line.split() for line in listing.splitlines())
    return [row[1] for row in rows if len(row) == 2 and row[0] == "Debian"]
