"""What the command lines of the benchmarks share: the servers, the steps, the file with figures."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.main_path import servers
from benchmarks.main_path.servers import NODES, Servers

# Slurm has just started, so each end is weak evidence: the brake would hold the eleventh pod.
NO_BRAKE: Final = "--brake-share=1"


def servers_of(args: argparse.Namespace) -> AbstractContextManager[Servers]:
    """The servers that `--on` and `--release` name. A sandbox has `args.nodes` nodes and room for
    `args.jobs` jobs, if these are set. A real Slurm has the scheduler's hooks if `args.guard` or
    `args.hooks` is set. Raises ServersError.
    """
    if args.on == "live":
        hooks = getattr(args, "guard", False) or getattr(args, "hooks", False)
        return servers.live(args.release, hooks=hooks)
    nodes = getattr(args, "nodes", NODES[args.release])
    jobs = max(getattr(args, "jobs", 0), servers.MAX_JOB_COUNT)
    return servers.sandbox(args.release, nodes, jobs=jobs)


def say(step: str) -> None:
    """Tell what is done next, apart from the figures."""
    sys.stderr.write(f"{step}\n")


def check_folder(parser: argparse.ArgumentParser, flag: str, path: Path | None) -> None:
    """End with status 2 if no file can be written at this path."""
    if path is None:
        return
    if not path.parent.is_dir():
        parser.error(f"{flag} is {path}: there is no directory {path.parent}")
    if path.is_dir():
        parser.error(f"{flag} is {path}: this is a directory")


def check_number(
    parser: argparse.ArgumentParser, flag: str, value: float, *, within: tuple[int, int]
) -> None:
    """End with status 2 if the value is not within these two, or is no number."""
    low, high = within
    if not low <= value <= high:
        parser.error(f"{flag} is {value:g}: expected {low} to {high}")


def check_hooks(parser: argparse.ArgumentParser, flag: str, args: argparse.Namespace) -> None:
    """End with status 2 if `flag`, which is given, asks for hooks that `--on` does not have."""
    if args.on != "live":
        parser.error(f"{flag} needs --on live: the sandbox's hooks are a model")


def write_json(figures: Any, path: Path | None) -> None:
    """Write the figures there, if a path is given."""
    if path is not None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")


def status_of(name: str, work: Callable[[], None], *failures: type[Exception]) -> int:
    """Do the work of a benchmark; gives the exit status: 1 after one of these failures, which is
    printed, and 130 after Ctrl-C or SIGTERM, so that no process is left behind.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    status = 0
    try:
        work()
    except* failures as errors:
        sys.stderr.write(f"benchmarks.{name}: {_first_of(errors)}\n")
        status = 1
    except* KeyboardInterrupt:
        status = 130
    return status


def _first_of(error: BaseException) -> BaseException:
    """The first error inside nested exception groups."""
    return _first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
