"""Runs a scheduler with a clock of its own, which tests set as an administrator or NTP would."""

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
    """A clock for the processes that it launches; a file in `folder` holds its offset."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library = library
        self._offset = folder / "clock"
        self.set_off(0)

    def set_off(self, seconds: int) -> None:
        """Set the clock ahead of the true time by so many seconds; behind it if negative."""
        fresh = self._offset.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.rename(self._offset)  # atomic

    def launch(self, arguments: Sequence[str], *, log: Path) -> Executed:
        """Run `slurm-pod-scheduler ARGUMENTS` with this clock, otherwise as forked.spawn does."""
        clock = faketime.by_clock(self._library, self._offset)
        command = (*clock, sys.executable, "-m", "scheduler", *arguments)
        environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
        return Executed(Daemon(command, log=log, environment=environment))


class Executed:
    """A program with an environment of its own, with the interface of a multiprocessing process."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._daemon.pid

    @property
    def exitcode(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._daemon.status

    def join(self, timeout: float) -> None:
        """Wait until it has ended, at most `timeout` seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._daemon.wait_ended(seconds=timeout)

    def kill(self) -> None:
        """End it (SIGKILL)."""
        self._daemon.stop(kill=True)


def seconds_off(lease: dict[str, Any]) -> float:
    """Seconds by which the clock that last renewed a Lease is ahead of the true time."""
    renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
    return (renewed - datetime.now(UTC)).total_seconds()
