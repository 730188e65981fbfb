"""What many waiting pods cost, and how soon a scheduler works that finds them at its start.

    python -m benchmarks.scale --pods 100,1000,9000                          # sandbox
    python -m benchmarks.scale --on live --pods 100,1000,10000               # as root

One native job takes every CPU, so all pods wait. For each number of pods, the scheduler's requests,
CPU time and memory are measured while nothing changes. Then the scheduler is killed, and a new one
starts, which finds all pods and their jobs. A pod that is created as soon as it is ready shows when
it works. Exit status 1 where a pod got no job.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit

import msgspec

from benchmarks.command import check_folder, say, servers_of, status_of, write_json
from benchmarks.main_path import observed
from benchmarks.main_path.counting import CountingRelay
from benchmarks.main_path.figures import Stalls, Waiting
from benchmarks.main_path.hands import ClearingFailed, Hands, hands
from benchmarks.main_path.observed import (
    KUBE_REQUESTS,
    SLURM_REQUESTS,
    SUBMITTED,
    ObservedScheduler,
    SchedulerFailed,
)
from benchmarks.main_path.servers import Servers, ServersError
from benchmarks.main_path.watched import watched

_LONGEST_SECONDS: Final = 3600.0
# Each step has one pod more at its end, and one job fills the cluster.
_MORE_JOBS: Final = 100
# Fewer than the scheduler lets a namespace submit at once.
_NAMESPACE_PODS: Final = 4000
_ROW: Final = "  {:>7}{:>11}{:>9}{:>7}{:>9}{:>12}  {:>9}{:>9}{:>12}{:>10}{:>10}"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """A start of the scheduler with pods and jobs that are there already: seconds until it is ready
    and until a new pod has its job, and what it cost until then.
    """

    ready_seconds: float
    submitted_seconds: float
    cpu_seconds: float
    slurm_requests: float
    kube_requests: float
    longest_stall_seconds: float
    stalls: Stalls


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """So many pods wait. `servers_cpu_share` has the CPU share of each server by its process's
    name. Memory is in MiB.
    """

    waiting: Waiting
    rss_mib: float
    servers_cpu_share: dict[str, float]
    start: Start


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run, with the steps in the order of their pods."""

    servers: str
    nodes: int
    steps: list[Step]

    @property
    def bytes_per_pod(self) -> float:
        """How much memory each further pod takes, between the first and the last step."""
        first, last = self.steps[0], self.steps[-1]
        more = last.waiting.pods - first.waiting.pods
        return (last.rss_mib - first.rss_mib) * 2**20 / more if more else 0.0


class Run:
    """One run on `found`; `say` is called with each step."""

    def __init__(
        self, found: Servers, hand: Hands, *, folder: Path, say: Callable[[str], None]
    ) -> None:
        self._servers = found
        self._hands = hand
        self._folder = folder
        self._say = say

    async def all(self, counts: Sequence[int], *, seconds: float) -> Figures:
        """Measure with each of these numbers of pods, which grow. Raises SchedulerFailed,
        ClearingFailed.
        """
        await self._hands.fill()
        port = urlsplit(self._servers.slurm_url).port or 80
        steps, before = list[Step](), 0
        async with CountingRelay(port) as relay:
            for count in counts:
                self._say(f"{count} pods wait for {seconds:.0f} s")
                names = [f"bench-{number:06}" for number in range(before, count)]
                steps.append(await self._step(relay, names, pods=count, seconds=seconds))
                before = count + 1  # with the pod that showed when the new scheduler works
        return Figures(servers=self._servers.name, nodes=self._servers.nodes, steps=steps)

    async def _step(
        self, relay: CountingRelay, names: Sequence[str], *, pods: int, seconds: float
    ) -> Step:
        async with observed.running(self._servers, self._folder, slurm_url=relay.url) as scheduler:
            await scheduler.until_ready()
            await self._hands.create(names)
            await scheduler.until_logged(SUBMITTED, len(names), seconds=_LONGEST_SECONDS)
            await scheduler.until_settled(seconds=_LONGEST_SECONDS)
            before, began = scheduler.servers_cpu_seconds(), time.monotonic()
            waiting = await watched(scheduler, relay, pods=pods, seconds=seconds)
            took = time.monotonic() - began
            share = {
                name: (used - before.get(name, 0.0)) / took
                for name, used in scheduler.servers_cpu_seconds().items()
            }
            rss = scheduler.rss_mib()
        self._say(f"start with {pods} pods and {pods} jobs")
        start = await self._start(f"bench-{pods:06}")
        return Step(waiting=waiting, rss_mib=rss, servers_cpu_share=share, start=start)

    async def _start(self, name: str) -> Start:
        began = time.monotonic()
        async with observed.running(self._servers, self._folder) as scheduler:
            await scheduler.until_ready()
            ready = time.monotonic() - began
            await self._hands.create([name])
            await scheduler.until_logged(SUBMITTED, 1, seconds=_LONGEST_SECONDS)
            submitted = time.monotonic() - began
            used = scheduler.cpu_seconds()
            return await _started(scheduler, ready=ready, submitted=submitted, used=used)


async def _started(
    scheduler: ObservedScheduler, *, ready: float, submitted: float, used: float
) -> Start:
    scrape = await scheduler.scrape()
    return Start(
        ready_seconds=ready,
        submitted_seconds=submitted,
        cpu_seconds=used,
        slurm_requests=scrape.total(SLURM_REQUESTS),
        kube_requests=scrape.total(KUBE_REQUESTS),
        longest_stall_seconds=scrape.longest_stall(),
        stalls=scrape.stalls(),
    )


def table(figures: Figures) -> str:
    """The figures for people."""
    heads = ("pods", "requests/s", "on wire", "CPU", "RSS MiB", "stalls")
    start = ("ready s", "works s", "requests", "CPU s", "stall ms")
    lines = [
        f"\nscale: {figures.servers}, {figures.nodes} nodes; waiting, then a new start",
        "",
        _ROW.format(*heads, *start),
        *map(_line, figures.steps),
        "",
        f"  each further pod takes {figures.bytes_per_pod / 1024:.1f} KiB",
        *map(_servers_line, figures.steps),
    ]
    return "\n".join(lines)


def _line(step: Step) -> str:
    waiting, start = step.waiting, step.start
    return _ROW.format(
        waiting.pods,
        f"{waiting.requests_per_second:.2f}",
        f"{waiting.counted_on_the_wire:.2f}",
        f"{100 * waiting.cpu_share:.1f} %",
        f"{step.rss_mib:.0f}",
        str(waiting.stalls),
        f"{start.ready_seconds:.1f}",
        f"{start.submitted_seconds:.1f}",
        f"{start.slurm_requests:.0f} + {start.kube_requests:.0f}",
        f"{start.cpu_seconds:.1f}",
        f"{1000 * start.longest_stall_seconds:.0f}",
    )


def _servers_line(step: Step) -> str:
    shares = sorted(step.servers_cpu_share.items(), key=lambda it: -it[1])
    listed = ", ".join(f"{name} {100 * share:.1f} %" for name, share in shares if share > 0.001)
    return f"  {step.waiting.pods} pods wait: CPU of the servers: {listed or 'below 0.1 %'}"


def main() -> int:
    """Measure and print; gives the exit status."""
    args = _arguments(sys.argv[1:])
    return status_of("scale", partial(_work, args), SchedulerFailed, ClearingFailed, ServersError)


def _work(args: argparse.Namespace) -> None:
    with servers_of(args) as found, TemporaryDirectory(prefix="scale-") as folder:
        figures = asyncio.run(_run(found, Path(folder), args))
    print(table(figures))
    write_json(figures, args.json)


async def _run(found: Servers, folder: Path, args: argparse.Namespace) -> Figures:
    namespaces = math.ceil(args.pods[-1] / _NAMESPACE_PODS)
    async with hands(found, namespaces=namespaces) as both:
        run = Run(found, both, folder=folder, say=say)
        return await run.all(args.pods, seconds=args.watch_seconds)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--on", choices=("sandbox", "live"), default="sandbox", help="default: sandbox")
    add("--release", choices=("26.05",), default="26.05", help="of Slurm; default: 26.05")
    add("--pods", type=_counts, default=[100, 1000, 9000], metavar="N,N", help="growing numbers")
    add("--watch-seconds", type=float, default=15.0, metavar="S", help="default: 15")
    add("--json", type=Path, metavar="FILE", help="write the figures there, too")
    args = parser.parse_args(argv)
    if not 1 <= args.watch_seconds <= 3600:
        parser.error(f"--watch-seconds is {args.watch_seconds:g}: expected 1 to 3600")
    check_folder(parser, "--json", args.json)
    args.jobs = args.pods[-1] + _MORE_JOBS
    return args


def _counts(text: str) -> list[int]:
    """Numbers of pods, each larger than the one before by two or more."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: expected numbers, such as 100,1000") from None
    grows = all(more > fewer + 1 for fewer, more in pairwise(counts))
    if not grows or counts[0] < 1 or counts[-1] > 100_000:
        raise argparse.ArgumentTypeError(f"{text!r}: expected growing numbers from 1 to 100000")
    return counts


if __name__ == "__main__":
    sys.exit(main())
