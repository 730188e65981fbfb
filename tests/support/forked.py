"""Runs the scheduler's command line in processes that need not import it all again.

A start of Python with all imports takes most of a second of CPU, which is most of what a short
story costs. The fork server of the standard library imports everything once, for all of them.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Final

_CONTEXT: Final[ForkServerContext] = multiprocessing.get_context("forkserver")


def spawn(arguments: Sequence[str], *, log: Path) -> ForkServerProcess:
    """Run `slurm-pod-scheduler ARGUMENTS` in this environment; its output is appended to `log`."""
    _CONTEXT.set_forkserver_preload(["tests.support.preloaded"])
    ensure_running()
    process = _CONTEXT.Process(target=_run, args=(list(arguments), str(log), dict(os.environ)))
    process.start()
    return process


def _run(arguments: list[str], log: str, environment: dict[str, str]) -> None:
    from scheduler.__main__ import main

    os.environ.clear()
    os.environ.update(environment)
    null = os.open(os.devnull, os.O_RDONLY)
    to = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number, stream in enumerate((null, to, to)):
        os.dup2(stream, number)
    sys.exit(main(arguments))
