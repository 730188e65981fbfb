"""Where a run was made: without that, its figures say nothing."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

_FOLDER: Final = Path(__file__).parents[2]
_LIBRARIES: Final = ("aiohttp", "httptools", "msgspec", "structlog", "uvloop")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """`load` is the number of processes that ran or wanted to run over the last minute, before the
    benchmarks began. `commit` ends with "+" if files had changed since, and is "" outside a clone.
    """

    processor: str
    cpus: int
    memory_gib: float
    kernel: str
    python: str
    libraries: dict[str, str]
    commit: str
    load: float


def this_machine() -> Machine:
    """What it is now."""
    return Machine(
        processor=_processor(),
        cpus=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        kernel=platform.release(),
        python=platform.python_version(),
        libraries=dict(_installed()),
        commit=_commit(),
        load=os.getloadavg()[0],
    )


def described(machine: Machine) -> str:
    """The same in three lines."""
    libraries = ", ".join(f"{name} {number}" for name, number in machine.libraries.items())
    return "\n".join(
        (
            f"{machine.cpus} CPUs of {machine.processor}, {machine.memory_gib:.0f} GiB, "
            f"load {machine.load:.1f} before the run",
            f"Linux {machine.kernel}, Python {machine.python}, {libraries}",
            f"commit {machine.commit or 'unknown'}",
        )
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _installed() -> list[tuple[str, str]]:
    found = []
    for name in _LIBRARIES:
        try:
            found.append((name, version(name)))
        except ModuleNotFoundError:  # an extra that is not installed
            continue
    return found


def _commit() -> str:
    try:
        commit = _git("rev-parse", "--short", "HEAD")
        return commit + "+" if _git("status", "--porcelain", "--untracked-files=no") else commit
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    command = ("git", "-C", str(_FOLDER), *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
