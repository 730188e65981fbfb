"""`slurm-pod-scheduler demo` as a newcomer runs it: a process, its exit status and its lines."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "scheduler", "demo")
# It took 77 s on a crowded machine, and takes a third of that on an idle one.
TOLD_SECONDS = 150
FIRST_LINE = "An embedded Kubernetes and Slurm start"
BOUND = r"bound to node-0[01] \(Slurm job \d+\)"
PENDING = r"waits: Slurm job \d+ is pending:"
STEPS = (
    (),
    (r"pod   trainer-\S+ created", rf"pod   trainer-\S+ {BOUND}", r"pod   trainer-\S+ Running"),
    (rf"pod   batch-\d {PENDING} (Resources|Priority) ", r"pod   batch-\d Succeeded"),
    (r"pod   trainer-\S+ Preempted: Slurm job \d+ was preempted",),
    (rf"pod   trainer-\S+ {PENDING} Resources ",),
    (r"slurm job \d+ simulation CANCELLED", rf"pod   trainer-\S+ {BOUND}"),
    (r"pod   trainer-\S+ is gone", r"slurm job \d+ default\.trainer-\S+ CANCELLED"),
    (
        rf"pod   (left|right)-0-\S+ {BOUND}",
        rf"pod   (left|right)-1-\S+ {PENDING} Resources ",
    ),
    (
        rf"pod   (left|right)-0-\S+ {BOUND}",
        r"slurm job \d+ default\.(left|right)\.\S+ CANCELLED",
    ),
)
"""What each step shows, of pods and of jobs. Pods are watched and jobs are asked for, so that a
job's line may come before or after a pod's line about the same change.
"""

pytestmark = pytest.mark.sandbox


@pytest.fixture
def folder() -> Iterator[Path]:
    """The demo's folder. The path of pytest's own is too long for a unix socket (108 bytes)."""
    with TemporaryDirectory(prefix="demo-") as name:
        yield Path(name)


def environment(folder: Path, **more: str) -> Mapping[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    foreign = {"SLURM_POD_SCHEDULER_WATCH_NAMESPACE": "elsewhere"}  # of the reader's own scheduler
    return kept | foreign | {"TMPDIR": str(folder), **more}


@contextmanager
def demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_demo_keeps_its_promises_and_leaves_nothing(folder: Path) -> None:
    with demo(folder) as process:
        output, errors = process.communicate(timeout=TOLD_SECONDS)
    assert process.returncode == 0, errors
    assert errors == ""
    assert "\x1b" not in output  # no colours: a pipe is no terminal
    for step, lines in zip(output.split(" -- ")[1:], STEPS, strict=True):
        for who in ("pod", "slurm"):
            seen = "".join(it for it in step.splitlines(keepends=True) if f" {who} " in it[:15])
            promised = [it for it in lines if it.startswith(who)]
            assert re.search(".*?".join(promised), seen, re.DOTALL), (promised, output)
    assert re.search(r"^All of it came true, in \d+ s\.$", output, re.MULTILINE), output
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, FIRST_LINE),
        (signal.SIGINT, " created\n"),
        (signal.SIGINT, " bound to "),
        (signal.SIGTERM, " bound to "),
    ],
)
def test_interrupted_demo_leaves_no_process_and_no_file(
    folder: Path, moment: str, number: signal.Signals
) -> None:
    with demo(folder) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while moment not in (line := process.stdout.readline()):
            assert line, process.stderr.read()
        begun = children(process.pid)
        process.send_signal(number)
        _, errors = process.communicate(timeout=TOLD_SECONDS)
    assert process.returncode == 130, errors
    assert errors == ""
    assert not [pid for pid in begun if alive(pid)]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("asked", [{}, {"NO_COLOR": "1"}], ids=["colour", "NO_COLOR"])
def test_terminal_gets_colour_unless_it_asks_for_none(folder: Path, asked: dict[str, str]) -> None:
    ours, its = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        process = subprocess.Popen(
            COMMAND,
            cwd=ROOT,
            env=environment(folder, **asked),
            stdin=subprocess.DEVNULL,
            stdout=its,
            stderr=its,
        )
        os.close(its)
        with process:
            told = b""
            while FIRST_LINE.encode() not in told:
                told += terminal.read(4096)
            process.send_signal(signal.SIGINT)
            assert process.wait(TOLD_SECONDS) == 130
    assert (b"\x1b" in told) is not bool(asked)
