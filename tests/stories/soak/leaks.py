"""Checks whether a process leaks. The kernel counts its memory, open files, sockets and threads,
and the process itself counts its tasks.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from tests.support.scheduler import SchedulerProcess

_EVERY_SECONDS: Final = 5.0
_QUARTERS: Final = 4
# How much a process of 100 MiB may grow between quarters of an hour without a leak: its caches
# follow the pods, and the allocator keeps memory that it once had.
_MOST: Final = {
    "memory, MiB": 16.0,
    "open files": 12.0,
    "sockets": 12.0,
    "threads": 4.0,
    "tasks": 30.0,
}


@dataclass(slots=True)
class Samples:
    """Samples of one scheduler. The first quarter does not count, because caches fill in it.

    The scheduler may end meanwhile, because a crowded machine can cost it its lease. Then the
    process that lived longest is judged.
    """

    process: SchedulerProcess
    by_pid: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    async def run(self) -> None:
        """Sample for ever; end it by cancelling."""
        while True:
            with suppress(OSError, AssertionError):  # no process, or it does not answer yet
                pid, sample = await asyncio.to_thread(_sample, self.process)
                self.by_pid.setdefault(pid, []).append(sample)
            await asyncio.sleep(_EVERY_SECONDS)

    @property
    def taken(self) -> list[dict[str, float]]:
        """The samples of the process that has most of them."""
        return max(self.by_pid.values(), key=len, default=[])

    def table(self) -> list[str]:
        """For each quantity a line with its median in the second and in the last quarter."""
        return [
            f"{name}: {self._quarter(name, 1):.0f}, then {self._quarter(name, 3):.0f}"
            for name in _MOST
        ]

    def leaks(self) -> list[str]:
        """The quantities that have grown by more than `_MOST`, one text each."""
        return [
            f"{name} grew from {self._quarter(name, 1):.0f} to {self._quarter(name, 3):.0f}"
            for name, most in _MOST.items()
            if self._quarter(name, 3) - self._quarter(name, 1) > most
        ]

    def _quarter(self, name: str, number: int) -> float:
        size = len(self.taken) // _QUARTERS
        assert size > 1, f"only {len(self.taken)} samples of one process"
        return median(it[name] for it in self.taken[number * size : (number + 1) * size])


def _sample(process: SchedulerProcess) -> tuple[int, dict[str, float]]:
    """The pid of the process, and its present quantities by name."""
    pid = process.pid
    own = Path(f"/proc/{pid}")
    fields = dict(line.split(":", 1) for line in (own / "status").read_text("ascii").splitlines())
    files = [_target(it) for it in (own / "fd").iterdir()]
    return pid, {
        "memory, MiB": int(fields["VmRSS"].split()[0]) / 1024,
        "open files": len(files),
        "sockets": sum(it.startswith("socket:") for it in files),
        "threads": int(fields["Threads"]),
        "tasks": process.metrics()["slurm_pod_scheduler_tasks"],
    }


def _target(link: Path) -> str:
    """The target of a file descriptor; empty if the descriptor was closed meanwhile."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""
