"""What every rig needs of the machine: root, a cache and programs, with errors that name them."""

from __future__ import annotations

import fcntl
import hashlib
import os
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
def announced(what: str) -> Iterator[None]:
    """Print `what` and how long it took; for steps that take noticeably long."""
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
