"""Cgroups of a rig, by a name that tells whose they are: the next one removes those of the dead."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = Path("/sys/fs/cgroup")
# Of cgroup v1, where each controller has a tree of its own.
MEMORY: Final = _ROOT / "memory"
_PREFIX: Final = "slurm-pod-rig-"
# A group competes for the CPU as one process does, and the servers of a rig and its tests are many:
# with twenty at work, a container had a twentieth, and its Python was half a minute in starting.
_TIMES_A_PROCESS: Final = 8
# By file: of cgroup v1, and of v2, with the value that stands for one process.
_CPU_WEIGHTS: Final = {"cpu.shares": 1024, "cpu.weight": 100}
_END_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1


def name_of(rig: str) -> str:
    """The name of the cgroups of a rig of this process; `rig` is unique on this machine."""
    return f"{_PREFIX}{os.getpid()}-{rig}"


def make(name: str) -> None:
    """Make one of that name in each tree, once those of processes that have died are gone.

    It has the CPU time of eight processes where others want it, too.
    """
    _remove_those_of_the_dead()
    for root in _trees():
        (root / name).mkdir()
        for file, one in _CPU_WEIGHTS.items():
            weight = root / name / file
            if weight.exists():
                weight.write_text(str(one * _TIMES_A_PROCESS))


def remove(name: str) -> None:
    """Remove what is empty, from the leaves up; processes that are ending may need a moment.

    RuntimeError where one does not end.
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
