"""What the scheduler pays for the cluster's Nodes: its first map, and each report of a kubelet.

    python -m benchmarks.nodes --nodes 1000,5000 --updates 20                # sandbox

For each number of Nodes, which are as many nodes of Slurm, the scheduler is started, and its CPU
time and memory are measured while nothing happens, and then while so many Nodes a second report
their status, as kubelets do. No pod exists.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.command import check_folder, say, status_of, write_json
from benchmarks.main_path import observed, servers
from benchmarks.main_path.figures import Stalls
from benchmarks.main_path.observed import ObservedScheduler, SchedulerFailed
from benchmarks.main_path.servers import Servers, ServersError
from tests.support.kube import Kube

_MOST_NODES: Final = 10_000
_SETTLE_SECONDS: Final = 5.0
_ROW: Final = "  {:>7}{:>9}{:>10}{:>9}{:>8}{:>14}{:>9}{:>10}"


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """So many Nodes. `ready_seconds` is the time from the start of the process until all Nodes are
    mapped, `start_cpu_seconds` its CPU time until then. The shares are of one CPU.
    """

    nodes: int
    ready_seconds: float
    start_cpu_seconds: float
    rss_mib: float
    idle_cpu_share: float
    updates_per_second: float
    updated_cpu_share: float
    longest_stall_seconds: float
    stalls: Stalls


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run, with the steps in the order of their Nodes."""

    servers: str
    steps: list[Step]


async def measured(
    found: Servers, scheduler: ObservedScheduler, *, began: float, updates: float, seconds: float
) -> Step:
    """The figures with these servers. Raises SchedulerFailed."""
    await scheduler.until_ready()
    ready, start = time.monotonic() - began, scheduler.cpu_seconds()
    await asyncio.sleep(_SETTLE_SECONDS)
    idle = await _share(scheduler, seconds)
    async with (
        Kube(found.kube_url, token=found.kube_token, ca=found.kube_ca) as kube,
        asyncio.TaskGroup() as group,
    ):
        reporting = group.create_task(_report(kube, updates, seconds))
        updated = await _share(scheduler, seconds)
        reported = await reporting
    scrape = await scheduler.scrape()
    return Step(
        nodes=found.nodes,
        ready_seconds=ready,
        start_cpu_seconds=start,
        rss_mib=scheduler.rss_mib(),
        idle_cpu_share=idle,
        updates_per_second=reported / seconds,
        updated_cpu_share=updated,
        longest_stall_seconds=scrape.longest_stall(),
        stalls=scrape.stalls(),
    )


async def _share(scheduler: ObservedScheduler, seconds: float) -> float:
    before, began = scheduler.cpu_seconds(), time.monotonic()
    await asyncio.sleep(seconds)
    return (scheduler.cpu_seconds() - before) / (time.monotonic() - began)


async def _report(kube: Kube, updates: float, seconds: float) -> int:
    """One Node after the other reports that it is ready; returns the number of reports."""
    names = itertools.cycle([it["metadata"]["name"] for it in await kube.items("nodes")])
    loop, number = asyncio.get_running_loop(), 0
    began = loop.time()
    while (elapsed := loop.time() - began) < seconds:
        if number >= elapsed * updates:
            await asyncio.sleep(1 / updates)
            continue
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now}
        patch = {"status": {"conditions": [ready]}}
        await kube.patch("nodes", next(names), patch, subresource="status")
        number += 1
    return number


def table(figures: Figures) -> str:
    """The figures for people."""
    heads = ("Nodes", "ready s", "CPU s", "RSS MiB", "idle", "at updates/s", "stalls", "stall ms")
    lines = (f"\nnodes: {figures.servers}", "", _ROW.format(*heads), *map(_line, figures.steps))
    return "\n".join(lines)


def _line(step: Step) -> str:
    return _ROW.format(
        step.nodes,
        f"{step.ready_seconds:.1f}",
        f"{step.start_cpu_seconds:.1f}",
        f"{step.rss_mib:.0f}",
        f"{100 * step.idle_cpu_share:.1f} %",
        f"{100 * step.updated_cpu_share:.1f} % {step.updates_per_second:.0f}",
        str(step.stalls),
        f"{1000 * step.longest_stall_seconds:.0f}",
    )


def main() -> int:
    """Measure and print; gives the exit status."""
    args = _arguments(sys.argv[1:])
    return status_of("nodes", partial(_work, args), SchedulerFailed, ServersError)


def _work(args: argparse.Namespace) -> None:
    steps = [_step(count, args) for count in args.nodes]
    figures = Figures(servers="sandbox-26.05", steps=steps)
    print(table(figures))
    write_json(figures, args.json)


def _step(count: int, args: argparse.Namespace) -> Step:
    say(f"{count} Nodes for twice {args.watch_seconds:.0f} s")
    with (
        TemporaryDirectory(prefix="nodes-") as folder,
        servers.sandbox("26.05", count) as found,
    ):
        return asyncio.run(_run(found, Path(folder), args))


async def _run(found: Servers, folder: Path, args: argparse.Namespace) -> Step:
    began = time.monotonic()
    async with observed.running(found, folder) as scheduler:
        return await measured(
            found, scheduler, began=began, updates=args.updates, seconds=args.watch_seconds
        )


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.nodes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--nodes", type=_counts, default=[1000, 5000, 10_000], metavar="N,N", help="numbers")
    add("--updates", type=float, default=20.0, metavar="N", help="a second; default: 20")
    add("--watch-seconds", type=float, default=15.0, metavar="S", help="default: 15")
    add("--json", type=Path, metavar="FILE", help="write the figures there, too")
    args = parser.parse_args(argv)
    for flag, value, high in (
        ("updates", args.updates, 1000),
        ("watch-seconds", args.watch_seconds, 3600),
    ):
        if not 1 <= value <= high:
            parser.error(f"--{flag} is {value:g}: expected 1 to {high}")
    check_folder(parser, "--json", args.json)
    return args


def _counts(text: str) -> list[int]:
    """Numbers of Nodes, as many as the sandbox may have."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
    if not counts or not all(1 <= it <= _MOST_NODES for it in counts):
        what = f"expected numbers of 1 to {_MOST_NODES}, such as 1000,5000"
        raise argparse.ArgumentTypeError(f"{text!r}: {what}")
    return counts


if __name__ == "__main__":
    sys.exit(main())
