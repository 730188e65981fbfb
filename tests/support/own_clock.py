"""Runs a scheduler with a time of day of its own, which tests set as an administrator or
NTP would.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.rigs import faketime
from tests.rigs.process import Daemon

_ROOT: Final = Path(__file__).parents[2]


class OwnClock:
    """The time of day of the processes that it launches; `folder` gets the file that says it."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library = library
        self._offset = folder / "clock"
        self.set_off(0)

    def set_off(self, seconds: int) -> None:
        """Set the clock ahead of the true one by so much, or behind it."""
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.rename(self._offset)  # half a file would be another time

    def launch(self, arguments: Sequence[str], *, log: Path) -> Executed:
        """Run `slurm-pod-scheduler ARGUMENTS` by this clock, as tests.support.forked.spawn does."""
        clock = faketime.by_clock(self._library, self._offset)
        command = (*clock, sys.executable, "-m", "scheduler", *arguments)
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        return Executed(Daemon(command, log=log, environment=environment))


class Executed:
    """A program with an environment of its own, as a process of multiprocessing shows itself."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._daemon.pid

    @property
    def exitcode(self) -> int | None:
        """Its status, that of a signal below zero; None while it runs."""
        return self._daemon.status

    def join(self, timeout: float) -> None:
        """Wait until it has ended, for so many seconds at most."""
        with suppress(subprocess.TimeoutExpired):
            self._daemon.wait_ended(seconds=timeout)

    def kill(self) -> None:
        """End it (SIGKILL)."""
        self._daemon.stop(kill=True)


def seconds_off(lease: dict[str, Any]) -> float:
    """How far the clock that renewed a Lease is ahead of the true one, or has stood since then."""
    renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
    return (renewed - datetime.now(UTC)).total_seconds()
