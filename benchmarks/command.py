"""What the command lines of the benchmarks share: the servers, the steps, the file with figures."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.main_path import servers
from benchmarks.main_path.servers import NODES, Servers


def servers_of(args: argparse.Namespace) -> AbstractContextManager[Servers]:
    """The servers that `--on` and `--release` name. A sandbox has `args.nodes` nodes and room for
    `args.jobs` jobs, if these are set. Raises ServersError.
    """
    if args.on == "live":
        return servers.live(args.release)
    nodes = getattr(args, "nodes", NODES[args.release])
    jobs = max(getattr(args, "jobs", 0), servers.MAX_JOB_COUNT)
    return servers.sandbox(args.release, nodes, jobs=jobs)


def say(step: str) -> None:
    """Tell what is done next, apart from the figures."""
    sys.stderr.write(f"{step}\n")


def check_folder(parser: argparse.ArgumentParser, flag: str, path: Path | None) -> None:
    """End with status 2 if no file can be written at this path."""
    if path is not None and not path.parent.is_dir():
        parser.error(f"{flag} is {path}: there is no directory {path.parent}")


def write_json(figures: Any, path: Path | None) -> None:
    """Write the figures there, if a path is given."""
    if path is not None:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=2) + b"\n")


def first_of(error: BaseException) -> BaseException:
    """The first error inside nested exception groups."""
    return first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
