"""A server as a child process that cannot outlive the tests."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

_POLL_SECONDS: Final = 0.02
_TAIL_CHARACTERS: Final = 2000
# The death signal comes when the forking thread ends (prctl(2)), so one thread forks them all.
_FORKER: Final = ThreadPoolExecutor(1, thread_name_prefix="forker")


class Daemon:
    """`command` running with its output in `log`; the kernel kills it when this process dies.

    It has a process group of its own, so that Ctrl-C reaches the tests alone and the servers stay
    up while they clean up.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = _FORKER.submit(
                subprocess.Popen[bytes],
                ("setpriv", "--pdeathsig", "KILL", *command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"} | dict(environment or {}),
            ).result()

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def stop(self, *, kill: bool = False, seconds: float = 20.0) -> None:
        """End it with SIGTERM, or SIGKILL at once or after `seconds`; returns when it is gone."""
        if self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(seconds)

    def wait_ended(self, *, seconds: float = 20.0) -> None:
        """Wait until it has ended by itself; subprocess.TimeoutExpired after `seconds`."""
        self._process.wait(seconds)

    def wait_until(
        self,
        ready: Callable[[], bool],
        *,
        what: str,
        seconds: float = 120.0,
        every_seconds: float = _POLL_SECONDS,
    ) -> None:
        """Poll `ready`, for which OSError counts as no. RuntimeError with the end of the log if the
        server ends early, or after `seconds`.
        """
        until = time.monotonic() + seconds
        while not answered(ready):
            status = self._process.poll()
            if status is not None:
                raise RuntimeError(f"{what}: ended with status {status}\n{self._tail()}")
            if time.monotonic() > until:
                raise RuntimeError(f"{what}: not ready after {seconds} s\n{self._tail()}")
            time.sleep(every_seconds)

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-_TAIL_CHARACTERS:]


def answered(ready: Callable[[], bool]) -> bool:
    """The result of `ready`; False if a server did not answer in time."""
    try:
        return ready()
    except OSError:
        return False
