"""Cgroups of a rig. Their name holds the pid, so that the next rig removes those of dead ones."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
# Controllers of cgroup v1, where each one has a tree of its own.
MEMORY: Final = _ROOT / "memory"
_PREFIX: Final = "slurm-pod-rig-"
# By default a group competes for the CPU like one process. With twenty busy servers and tests a
# container then got a twentieth of a CPU, and Python took half a minute to start in it.
_TIMES_A_PROCESS: Final = 8
# By file: of cgroup v1, and of v2, with the value that stands for one process.
_CPU_WEIGHTS: Final = {"cpu.shares": 1024, "cpu.weight": 100}
_END_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.1


def name_of(rig: str) -> str:
    """The name of a rig's cgroups; `rig` is unique on this machine, and this process owns it."""
    return f"{_PREFIX}{os.getpid()}-{rig}"


def make(name: str) -> None:
    """Make a cgroup of that name in each tree, after removing those of dead processes.

    Its CPU share is that of eight processes.
    """
    _remove_those_of_the_dead()
    for root in _trees():
        (root / name).mkdir()
        for file, one in _CPU_WEIGHTS.items():
            weight = root / name / file
            if weight.exists():
                weight.write_text(str(one * _TIMES_A_PROCESS))


def remove(name: str) -> None:
    """Remove the cgroups from the leaves up, waiting a moment for processes that are ending.

    RuntimeError if one does not end.
    """
    until = time.monotonic() + _END_SECONDS
    for root in _trees():
        while (root / name).exists() and not _removed(root / name):
            if time.monotonic() > until:
                raise RuntimeError(f"cgroup {root / name} is still in use")
            time.sleep(_POLL_SECONDS)


def _trees() -> Iterator[Path]:
    """The roots of all trees: one with cgroup v2, one for each controller with v1."""
    if (_ROOT / "cgroup.controllers").exists():
        yield _ROOT
    else:
        yield from (path for path in _ROOT.iterdir() if path.is_dir())


def _removed(top: Path) -> bool:
    try:
        for folder, _, _ in os.walk(top, topdown=False):
            Path(folder).rmdir()
    except OSError:
        return False
    return True


def _remove_those_of_the_dead() -> None:
    names = {path.name for root in _trees() for path in root.glob(_PREFIX + "*")}
    for name in names:
        owner = re.match(r"\d+", name.removeprefix(_PREFIX))
        if owner and not Path("/proc", owner[0]).exists():
            remove(name)
