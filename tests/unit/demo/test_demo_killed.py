"""What is left of a demo that was killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[3]
_SECONDS = 60.0


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(it) for path in files for it in path.read_text().split()]


def _words(pid: int) -> bytes:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_scheduler_of_a_killed_demo_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    command = (sys.executable, "-m", "scheduler", "demo")
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.DEVNULL) as demo:
        try:
            _until(lambda: any(b"--kubeconfig=" in _words(it) for it in _children(demo.pid)))
            (scheduler,) = _children(demo.pid)
        finally:
            demo.kill()
    _until(lambda: not _words(scheduler))
