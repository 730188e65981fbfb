"""Pods that come and go for minutes: whether work is left over, memory grows, or the loop is late.

    python -m benchmarks.churn --rate 100 --seconds 600                      # sandbox
    python -m benchmarks.churn --on live --rate 20 --seconds 600             # as root
    python -m benchmarks.churn --on live --hooks --rate 3 --seconds 60

Pods are created at a constant rate, and each is deleted some seconds later, whether it is bound or
not. Every ten seconds a line says how many pods have no Node yet, and what the scheduler uses. A
thread asks the scheduler's health port 20 times a second, first without any pods: each answer, over
a connection of its own, takes several turns of the event loop. How late one turn is comes from the
scheduler's own metric. Exit status 1 where a pod or a job is left at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.command import check_folder, check_hooks, say, servers_of, status_of, write_json
from benchmarks.main_path import hooked, observed
from benchmarks.main_path.figures import Latency, Stalls
from benchmarks.main_path.hands import ClearingFailed, Hands, hands
from benchmarks.main_path.observed import (
    BOUND,
    KUBE_REQUESTS,
    SLURM_REQUESTS,
    STAGES,
    ObservedScheduler,
    SchedulerFailed,
    Scrape,
)
from benchmarks.main_path.servers import Servers, ServersError

_ACTIONS: Final = "slurm_pod_scheduler_actions_total"
_DROPPED: Final = "slurm_pod_scheduler_events_dropped_total"
_LINE_SECONDS: Final = 10.0
_QUIET_SECONDS: Final = 10.0
_PROBE_SECONDS: Final = 0.05
_ANSWER_SECONDS: Final = 30.0
_STEP_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 300.0
# Slurm remembers jobs that have ended for five minutes (MinJobAge).
_REMEMBERED_SECONDS: Final = 300.0
# Half of what the scheduler lets a namespace submit without end.
_NAMESPACE_RATE: Final = 10.0
_ROW: Final = "  {:>5}{:>9}{:>9}{:>9}{:>8}{:>10}{:>10}{:>9}"


class Lap(msgspec.Struct, frozen=True, kw_only=True):
    """The state after so many seconds: pods created and bound so far, and what the scheduler has
    used since the lap before. Memory is in MiB.
    """

    second: float
    created: int
    bound: int
    cpu_share: float
    rss_mib: float
    loop_lag: Latency
    stalls: Stalls

    @property
    def without_node(self) -> int:
        """Pods that were created and not bound; those that were deleted first are among them."""
        return self.created - self.bound


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run; times in seconds. `quiet` are the probes before the first pod."""

    servers: str
    hooks: bool
    rate: float
    life: float
    laps: list[Lap]
    created_to_bound: Latency
    allocated_to_bound: Latency
    quiet: Latency
    probes: Latency
    loop_lag: Latency
    slurm_requests_per_pod: float
    kube_requests_per_pod: float
    events_dropped: float

    @property
    def mib_a_minute(self) -> float:
        """How fast the memory grew in the second half of the run, by its first and last lap."""
        half = self.laps[len(self.laps) // 2 :]
        minutes = (half[-1].second - half[0].second) / 60.0
        return (half[-1].rss_mib - half[0].rss_mib) / minutes if minutes else 0.0


class Probes:
    """Asks the health port again and again, in a thread, and keeps how long each answer took."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._taken = list[float]()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def since(self, number: int) -> list[float]:
        """The seconds of all answers but the first `number`."""
        return self._taken[number:]

    def stop(self) -> None:
        """Ask no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(_PROBE_SECONDS):
            began = time.monotonic()
            connection = http.client.HTTPConnection(
                "127.0.0.1", self._port, timeout=_ANSWER_SECONDS
            )
            try:
                connection.request("GET", "/livez")
                connection.getresponse().read()
            except OSError:
                continue  # it ends, and the run says so
            finally:
                connection.close()
            self._taken.append(time.monotonic() - began)


class Run:
    """One run; `tell` is called with each line of figures."""

    def __init__(
        self,
        found: Servers,
        hand: Hands,
        scheduler: ObservedScheduler,
        *,
        rate: float,
        life: float,
        hooks: bool,
        tell: Callable[[str], None],
    ) -> None:
        self._servers = found
        self._hands = hand
        self._scheduler = scheduler
        self._rate = rate
        self._life = life
        self._hooks = hooks
        self._tell = tell
        self._created: dict[str, float] = {}

    async def all(self, seconds: float) -> Figures:
        """Measure for so long. Raises SchedulerFailed, ClearingFailed."""
        probes = Probes(self._scheduler.probe_port)
        try:
            await asyncio.sleep(_QUIET_SECONDS)
            before, quiet = await self._scheduler.scrape(), probes.since(0)
            self._tell(_ROW.format(*_HEADS))
            async with asyncio.TaskGroup() as group:
                coming = group.create_task(self._come_and_go(seconds))
                laps = await self._laps(coming, before)
            busy = probes.since(len(quiet))
            after = await self._scheduler.scrape()
        finally:
            probes.stop()
        await self._hands.until("no pods", self._hands.no_pods, seconds=_PATIENCE_SECONDS)
        await self._hands.until("no jobs", self._hands.none_left, seconds=_PATIENCE_SECONDS)
        bound = self._scheduler.times(BOUND, by="pod")
        if not bound:
            raise self._scheduler.failed("no pod was bound")
        pods = len(self._created)
        took = [at - self._created[name] for name, at in bound.items()]
        stages = after.buckets(STAGES, stage="bound")
        return Figures(
            servers=self._servers.name,
            hooks=self._hooks,
            rate=pods / seconds,
            life=self._life,
            laps=laps,
            created_to_bound=Latency.of(took),
            allocated_to_bound=Latency.of_buckets(stages, longest=max(took)),
            quiet=Latency.of(quiet),
            probes=Latency.of(busy),
            loop_lag=after.loop_lag(since=before),
            slurm_requests_per_pod=_more(SLURM_REQUESTS, before, after) / pods,
            kube_requests_per_pod=_more(KUBE_REQUESTS, before, after) / pods,
            events_dropped=_more(_DROPPED, before, after),
        )

    async def _come_and_go(self, seconds: float) -> None:
        loop, number = asyncio.get_running_loop(), 0
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            while (elapsed := loop.time() - began) < seconds:
                while number < elapsed * self._rate:
                    group.create_task(self._live(f"churn-{number:06}"))
                    number += 1
                await asyncio.sleep(_STEP_SECONDS)

    async def _live(self, name: str) -> None:
        await self._hands.create([name])
        self._created[name] = time.time()
        await asyncio.sleep(self._life)
        await self._hands.delete(name)

    async def _laps(self, coming: asyncio.Task[None], before: Scrape) -> list[Lap]:
        laps, began, last = list[Lap](), time.monotonic(), before
        while not coming.done():
            cpu, since = self._scheduler.cpu_seconds(), time.monotonic()
            await asyncio.wait({coming}, timeout=_LINE_SECONDS)
            now = await self._scheduler.scrape()
            lap = Lap(
                second=time.monotonic() - began,
                created=len(self._created),
                bound=int(_bound(now) - _bound(before)),
                cpu_share=(self._scheduler.cpu_seconds() - cpu) / (time.monotonic() - since),
                rss_mib=self._scheduler.rss_mib(),
                loop_lag=now.loop_lag(since=last),
                stalls=now.stalls(since=last),
            )
            laps.append(lap)
            self._tell(_line(lap))
            last = now
        return laps


def _bound(scrape: Scrape) -> float:
    return scrape.total(_ACTIONS, action="bind", outcome="bound")


def _more(name: str, before: Scrape, after: Scrape) -> float:
    return after.total(name) - before.total(name)


_HEADS: Final = ("s", "created", "bound", "no Node", "CPU", "RSS MiB", "lag ms", "stalls")


def _line(lap: Lap) -> str:
    return _ROW.format(
        f"{lap.second:.0f}",
        lap.created,
        lap.bound,
        lap.without_node,
        f"{100 * lap.cpu_share:.0f} %",
        f"{lap.rss_mib:.0f}",
        f"{1000 * lap.loop_lag.p99:.0f}",
        str(lap.stalls),
    )


def summary(figures: Figures) -> str:
    """The figures of the whole run, for people."""
    bound, quiet, busy = figures.created_to_bound, figures.quiet, figures.probes
    lag, allocated = figures.loop_lag, figures.allocated_to_bound
    hooks = ", with hooks" if figures.hooks else ""
    return "\n".join(
        (
            f"\nchurn: {figures.rate:.1f} pods/s on {figures.servers}{hooks}, each for "
            f"{figures.life:g} s",
            "",
            f"  created to bound: p50 {1000 * bound.p50:.0f} ms, p99 {1000 * bound.p99:.0f} ms",
            f"  allocated to bound: p50 {1000 * allocated.p50:.0f} ms, "
            f"p99 {1000 * allocated.p99:.0f} ms",
            f"  health port: p50 {1000 * busy.p50:.1f} ms, p99 {1000 * busy.p99:.1f} ms; before "
            f"the first pod {1000 * quiet.p50:.1f} and {1000 * quiet.p99:.1f} ms",
            f"  event loop late: p50 {1000 * lag.p50:.1f} ms, p99 {1000 * lag.p99:.1f} ms",
            f"  requests per pod: {figures.slurm_requests_per_pod:.2f} to Slurm, "
            f"{figures.kube_requests_per_pod:.2f} to Kubernetes",
            f"  memory in the second half: {figures.mib_a_minute:+.2f} MiB a minute",
            f"  Events dropped: {figures.events_dropped:.0f}",
        )
    )


def main() -> int:
    """Measure and print; gives the exit status."""
    args = _arguments(sys.argv[1:])
    return status_of("churn", partial(_work, args), SchedulerFailed, ClearingFailed, ServersError)


def _work(args: argparse.Namespace) -> None:
    with TemporaryDirectory(prefix="churn-") as folder, servers_of(args) as found:
        figures = asyncio.run(_run(found, Path(folder), args))
    print(summary(figures))
    write_json(figures, args.json)


async def _run(found: Servers, folder: Path, args: argparse.Namespace) -> Figures:
    namespaces = math.ceil(args.rate / _NAMESPACE_RATE)
    with hooked.hooks(found, folder, on=args.hooks) as flags:
        async with (
            hands(found, namespaces=namespaces) as both,
            observed.running(found, folder, flags=flags) as scheduler,
        ):
            await scheduler.until_ready()
            given = {"rate": args.rate, "life": args.life, "hooks": args.hooks}
            return await Run(found, both, scheduler, **given, tell=say).all(args.seconds)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.churn",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--on", choices=("sandbox", "live"), default="sandbox", help="default: sandbox")
    add("--rate", type=float, default=100.0, metavar="N", help="pods a second; default: 100")
    add("--seconds", type=float, default=600.0, metavar="S", help="default: 600")
    add("--life", type=float, default=10.0, metavar="S", help="of each pod; default: 10")
    add("--hooks", action="store_true", help="with Slurm's hooks; live only")
    add("--json", type=Path, metavar="FILE", help="write the figures there, too")
    args = parser.parse_args(argv)
    for flag, low, high in (("rate", 0.1, 1000), ("seconds", 5, 86_400), ("life", 1, 3600)):
        if not low <= getattr(args, flag) <= high:
            parser.error(f"--{flag} is {getattr(args, flag):g}: expected {low} to {high}")
    if args.hooks:
        check_hooks(parser, "--hooks", args)
    check_folder(parser, "--json", args.json)
    args.release = "26.05"
    # Also if pods take so long to be bound, Slurm is not to be full.
    remembered = min(args.seconds, _REMEMBERED_SECONDS) + args.life
    args.jobs = int(args.rate * (remembered + _PATIENCE_SECONDS)) + 1000
    return args


if __name__ == "__main__":
    sys.exit(main())
