"""What every rig needs of the machine: root, a cache, Debian packages, and a word on what lacks."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_COMMAND_SECONDS: Final = 3600


class PrerequisiteError(RuntimeError):
    """Something the live tier needs is not on this machine; the text says how to get it."""


def cache_directory() -> Path:
    """Where built and unpacked servers are kept, outside the checkout; made if absent."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "slurm-pod-scheduler"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def recipe_key(*parts: str) -> str:
    """A short name for everything that decides what a cached thing contains."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock beside `path` against other processes; waits for it."""
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print `what` and how long it took; for steps a person would wonder about."""
    print(f"{what} ...", flush=True)
    began = time.monotonic()
    yield
    print(f"{what}: {time.monotonic() - began:.1f} s", flush=True)


def need_root() -> None:
    """Raise PrerequisiteError unless this process is root."""
    if os.geteuid() != 0:
        raise PrerequisiteError(
            "the rigs make mounts, namespaces and cgroups: run the live tier as root"
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
            with told(f"unpacking {', '.join(packages)} of Debian {suite}"):
                _unpack_into(root, suite, packages)
    run((str(root / binary), "--version"))
    return root


def run(
    command: Sequence[str],
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The standard output of `command`. Raises PrerequisiteError with its error output."""
    done = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=_COMMAND_SECONDS,
        cwd=directory,
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        raise PrerequisiteError(
            f"`{' '.join(command)}` failed with status {done.returncode}:\n{done.stderr[-2000:]}"
        )
    return done.stdout


def _unpack_into(root: Path, suite: str, packages: Sequence[str]) -> None:
    _need_mmdebstrap()
    partial = root.with_name(root.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    run(
        (
            "mmdebstrap",
            "--variant=extract",
            "--mode=root",
            '--aptopt=APT::Install-Recommends "false"',
            '--aptopt=Acquire::Check-Valid-Until "false"',
            "--include=" + ",".join(packages),
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
            "mmdebstrap is missing and there is no apt-get to install it: the live tier needs a "
            "Debian machine"
        )
    with told("installing mmdebstrap"):
        run(("apt-get", "update"))
        run(("apt-get", "install", "--yes", "--no-install-recommends", "mmdebstrap"))


def _mirror() -> str:
    """The Debian mirror this machine's own apt is set up with."""
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
