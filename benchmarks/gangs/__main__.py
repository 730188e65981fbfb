"""`python -m benchmarks.gangs --on sandbox`: how long a gang takes from its last pod to its last
binding, beside a bare loop that starts the same pods by one job.

Each round has a gang of each size through the bare loop, and one through the scheduler.
Exit status 1 where the scheduler, or the bare loop, did not get all pods bound.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import check_folder, say, servers_of, status_of, write_json
from benchmarks.gangs.figures import Figures, table
from benchmarks.gangs.run import run
from benchmarks.main_path.hands import ClearingFailed
from benchmarks.main_path.observed import SchedulerFailed
from benchmarks.main_path.phases import BareLoopFailed
from benchmarks.main_path.servers import NODES, ServersError

_SIZES: Final = (8, 64, 200)


def main() -> int:
    """Run and print; gives the exit status."""
    args = _arguments(sys.argv[1:])
    return status_of(
        "gangs", partial(_work, args), SchedulerFailed, BareLoopFailed, ClearingFailed, ServersError
    )


def _work(args: argparse.Namespace) -> None:
    with servers_of(args) as found, TemporaryDirectory(prefix="gangs-") as folder:
        work = run(found, Path(folder), sizes=args.sizes, rounds=args.rounds, say=say)
        _write(asyncio.run(work), args.json)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gangs", description=__doc__)
    add = parser.add_argument
    add("--on", choices=("sandbox", "live"), default="sandbox", help="default: sandbox")
    add("--release", choices=tuple(NODES), default="26.05", help="of Slurm; default: 26.05")
    add(
        *("--sizes",),
        metavar="N,N",
        help="pods of the gangs, each on a node of its own; default: 8,64,200 (24.11: 2)",
    )
    add("--rounds", type=int, default=3, metavar="R", help="default: 3")
    add("--json", type=Path, metavar="FILE", help="write the figures there, too")
    args = parser.parse_args(argv)
    nodes = NODES[args.release]
    args.sizes = _sizes(parser, args.sizes, nodes)
    if not 1 <= args.rounds <= 100:
        parser.error(f"--rounds is {args.rounds}: expected 1 to 100")
    check_folder(parser, "--json", args.json)
    return args


def _sizes(parser: argparse.ArgumentParser, given: str | None, nodes: int) -> list[int]:
    if given is None:
        return [it for it in _SIZES if it <= nodes] or [nodes]
    sizes = [int(it) for it in given.split(",") if it.isdecimal()]
    if len(sizes) != len(given.split(",")) or not all(2 <= it <= nodes for it in sizes):
        parser.error(f"--sizes is {given}: expected numbers from 2 to {nodes}, as there are nodes")
    return sizes


def _write(figures: Figures, path: Path | None) -> None:
    print(table(figures), flush=True)
    write_json(figures, path)


if __name__ == "__main__":
    sys.exit(main())
