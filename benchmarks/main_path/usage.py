"""What a process has used so far, from proc(5)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads."""
    # The second field is a name in parentheses that may hold blanks.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_rss_mib(pid: int) -> float:
    """Its peak resident memory."""
    return _memory_mib(pid, "VmHWM:")


def rss_mib(pid: int) -> float:
    """Its resident memory now."""
    return _memory_mib(pid, "VmRSS:")


def _memory_mib(pid: int, which: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has no memory: it has ended")


def queued_seconds(pid: int) -> float:
    """Seconds for which its main thread waited for a CPU; 0 if the kernel does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


def cpu_seconds_below(pid: int, *, without: int = 0) -> Mapping[str, float]:
    """User and system time of the processes that the given one has started, and of theirs, by their
    names. One of them, and what it has started, may be left out.
    """
    used: defaultdict[str, float] = defaultdict(float)
    for child in _children(pid):
        if child == without:
            continue
        try:
            used[Path(f"/proc/{child}/comm").read_text().strip()] += cpu_seconds(child)
            for name, seconds in cpu_seconds_below(child).items():
                used[name] += seconds
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
    return used


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]
