"""`python -m benchmarks.main_path --on sandbox --pods 1000`: pods/s and what they cost.

For comparison, there is a burst through a loop without logic beside each burst through the
scheduler; `--guard` adds one with the handover guard on.
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

from benchmarks.command import check_folder, check_hooks, say, servers_of, status_of, write_json
from benchmarks.main_path import report
from benchmarks.main_path.figures import Figures
from benchmarks.main_path.hands import ClearingFailed
from benchmarks.main_path.observed import SchedulerFailed
from benchmarks.main_path.phases import BareLoopFailed, run
from benchmarks.main_path.servers import CPUS_PER_NODE, NODES, ServersError

_WATCH_SECONDS: Final = 15.0
# A small run only checks that everything works, so it counts requests for a shorter time.
_SMALL: Final = 500
_SHORT_WATCH_SECONDS: Final = 5.0


def main() -> int:
    """Run and print; gives the exit status."""
    args = _arguments(sys.argv[1:])
    return status_of(
        "main_path",
        partial(_work, args),
        SchedulerFailed,
        BareLoopFailed,
        ClearingFailed,
        ServersError,
    )


def _work(args: argparse.Namespace) -> None:
    with servers_of(args) as found, TemporaryDirectory(prefix="main-path-") as folder:
        figures = asyncio.run(
            run(
                found,
                Path(folder),
                pods=args.pods,
                rounds=args.rounds,
                watch_seconds=args.watch_seconds,
                guard=args.guard,
                say=say,
            )
        )
    _write(figures, args.json)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.main_path", description=__doc__)
    add = parser.add_argument
    add("--on", choices=("sandbox", "live"), default="sandbox", help="default: sandbox")
    add("--pods", type=int, default=1000, metavar="N", help="default: 1000")
    add("--nodes", type=int, metavar="M", help="of the sandbox; default: 200 (24.11: 2)")
    add("--release", choices=tuple(NODES), default="26.05", help="of Slurm; default: 26.05")
    add("--rounds", type=int, default=2, metavar="R", help="pairs of bursts; default: 2")
    add(
        *("--watch-seconds",),
        type=float,
        metavar="S",
        help=f"how long requests are counted; default: 15, below {_SMALL} pods 5",
    )
    add("--guard", action="store_true", help="bursts with the handover guard on, too; live only")
    add("--json", type=Path, metavar="FILE", help="write the figures there, too")
    args = parser.parse_args(argv)
    if args.nodes is not None and args.on == "live":
        parser.error(f"--nodes is {args.nodes}: the live rig has {NODES[args.release]} nodes")
    if args.guard:
        check_hooks(parser, "--guard", args)
    if args.nodes is None:
        args.nodes = NODES[args.release]
    if args.watch_seconds is None:
        args.watch_seconds = _SHORT_WATCH_SECONDS if args.pods < _SMALL else _WATCH_SECONDS
    _check(parser, args)
    args.jobs = args.pods * (4 * args.rounds + 2)
    return args


def _check(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    room = CPUS_PER_NODE * args.nodes
    if not 1 <= args.nodes <= 10_000:
        parser.error(f"--nodes is {args.nodes}: expected 1 to 10000")
    if not 1 <= args.pods <= room:
        parser.error(
            f"--pods is {args.pods}: expected 1 to {room}, "
            f"as {args.nodes} nodes of {CPUS_PER_NODE} CPUs hold"
        )
    if not 1 <= args.rounds <= 100:
        parser.error(f"--rounds is {args.rounds}: expected 1 to 100")
    if not 1 <= args.watch_seconds <= 3600:
        parser.error(f"--watch-seconds is {args.watch_seconds:g}: expected 1 to 3600")
    check_folder(parser, "--json", args.json)


def _write(figures: Figures, path: Path | None) -> None:
    print(report.table(figures))
    write_json(figures, path)


if __name__ == "__main__":
    sys.exit(main())
