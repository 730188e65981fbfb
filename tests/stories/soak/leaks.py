"""Whether a process keeps more and more: memory, open files, sockets and threads as the kernel
counts them, tasks as it does itself.
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
# What a process of 100 MiB may differ by between quarters of an hour without a leak: its caches
# follow the pods, and the allocator keeps what it had.
_MOST: Final = {
    "memory, MiB": 16.0,
    "open files": 12.0,
    "sockets": 12.0,
    "threads": 4.0,
    "tasks": 30.0,
}


@dataclass(slots=True)
class Samples:
    """Of one scheduler; the first quarter, in which it gets warm, does not count.

    Where it ends meanwhile, as a crowded machine can cost it its lease, the process that lived
    longest is judged.
    """

    process: SchedulerProcess
    by_pid: dict[int, list[dict[str, float]]] = field(default_factory=dict)

    async def run(self) -> None:
        """Sample for ever; end it by cancelling."""
        while True:
            with suppress(OSError, AssertionError):  # there is none, or it does not answer yet
                pid, sample = await asyncio.to_thread(_sample, self.process)
                self.by_pid.setdefault(pid, []).append(sample)
            await asyncio.sleep(_EVERY_SECONDS)

    @property
    def taken(self) -> list[dict[str, float]]:
        """Those of the process with most."""
        return max(self.by_pid.values(), key=len, default=[])

    def table(self) -> list[str]:
        """From the second quarter to the last, a line each."""
        return [
            f"{name}: {self._quarter(name, 1):.0f}, then {self._quarter(name, 3):.0f}"
            for name in _MOST
        ]

    def leaks(self) -> list[str]:
        """What has grown by more than it may."""
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
    """Of which process, and what it has."""
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
    """What a descriptor leads to; it may be closed by now."""
    try:
        return str(link.readlink())
    except FileNotFoundError:
        return ""
