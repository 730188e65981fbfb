"""The latency of a single pod: from created to bound beside Slurm's own time, and from scancel to
the request that deletes the pod.

    python -m benchmarks.one_pod --rounds 20                                 # sandbox
    python -m benchmarks.one_pod --on live --hooks --json figures.json       # as root

A watch shows when the pod is there, is bound and is being deleted. A poll every 5 ms shows when its
job is there, and when it runs and is no longer CONFIGURING: the time between is Slurm's own.
Exit status 1 where a pod was not bound or not deleted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.command import (
    NO_BRAKE,
    check_folder,
    check_hooks,
    servers_of,
    status_of,
    write_json,
)
from benchmarks.main_path import hooked, observed
from benchmarks.main_path.hands import NAMESPACE, ClearingFailed, Hands, hands
from benchmarks.main_path.observed import ObservedScheduler, SchedulerFailed
from benchmarks.main_path.servers import NODES, Servers, ServersError
from scheduler.config.settings import Settings
from tests.support.history import History
from tests.support.kube import Kube, Object
from tests.support.pods import leaving, node_of
from tests.support.slurm_rest import SlurmRest, read_token

_POLL_SECONDS: Final = 0.005
_LOOK_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 120.0
# After the bind so much time passes until the scancel, and up to two idle intervals more: it falls
# at any point of the interval, and at none more often than at others.
_SETTLE_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = float(Settings.model_fields["idle_poll_interval"].default)
_ROW: Final = "  {:<30}{:>10}{:>10}"


class Spread(msgspec.Struct, frozen=True):
    """Quantiles in seconds, by rank from all values."""

    p50: float
    p90: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """The quantiles of these values."""
        ordered = sorted(seconds)
        return cls(*(ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.9)))


class Course(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one pod, in seconds. `slurm` is Slurm's own part of `created_to_bound`."""

    created_to_bound: float
    slurm: float
    scancel_to_deletion: float


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """All pods, one after the other. `poll` is how far apart the polls really were."""

    servers: str
    hooks: bool
    created_to_bound: Spread
    slurm: Spread
    beyond_slurm: Spread
    scancel_to_deletion: Spread
    poll: Spread
    courses: list[Course]


class SlurmPoll:
    """Asks for the states of all jobs every 5 ms, or as often as slurmrestd answers."""

    def __init__(self, found: Servers) -> None:
        token = read_token(found.slurm_token_file)
        self._rest = SlurmRest(found.slurm_url, major=found.release, token=token)
        self.apart: list[float] = []

    async def own_seconds(self, known: set[int]) -> float:
        """The time from the poll that first shows a job beside these to the one that shows it
        ready for its pod.
        """
        asked: list[float] = []
        first = math.inf
        while True:
            asked.append(time.monotonic())
            found = [it for job_id, it in (await self._states()).items() if job_id not in known]
            if found:
                first = min(first, asked[-1])
            if any(map(_is_ready, found)):
                self.apart += [later - sooner for sooner, later in pairwise(asked)]
                return asked[-1] - first
            await asyncio.sleep(asked[-1] + _POLL_SECONDS - time.monotonic())

    async def job_ids(self) -> set[int]:
        """The jobs that Slurm knows, those that have ended too."""
        return set(await self._states())

    async def _states(self) -> dict[int, set[str]]:
        answer = await asyncio.to_thread(self._rest.request, "GET", "jobs/state/")
        return {int(job["job_id"]): set(job["state"]) for job in answer.body["jobs"]}


def _is_ready(states: set[str]) -> bool:
    return "RUNNING" in states and "CONFIGURING" not in states


class Run:
    """Pods one after the other, through a scheduler that runs already."""

    def __init__(
        self, scheduler: ObservedScheduler, hand: Hands, *, poll: SlurmPoll, history: History
    ) -> None:
        self._scheduler = scheduler
        self._hands = hand
        self._poll = poll
        self._history = history

    async def course(self, name: str) -> Course:
        """The course of one pod, of which nothing is left; raises SchedulerFailed,
        ClearingFailed.
        """
        known = await self._poll.job_ids()
        polling = asyncio.create_task(self._poll.own_seconds(known))
        try:
            await self._hands.create([name])
            bound = await self._when(name, "bound", lambda pod: node_of(pod) is not None)
            slurm = await polling
        finally:
            polling.cancel()
        await asyncio.sleep(_SETTLE_SECONDS + random.uniform(0.0, 2.0 * _IDLE_SECONDS))
        jobs, cancelled = await self._hands.live_jobs(), time.monotonic()
        await self._hands.cancel(jobs)
        deleted = await self._when(name, "deleted", leaving)
        await self._hands.until("no pods", self._hands.no_pods, seconds=_PATIENCE_SECONDS)
        await self._hands.until("no jobs", self._hands.none_left, seconds=_PATIENCE_SECONDS)
        created = self._history.of(name)[0].at
        return Course(
            created_to_bound=bound - created,
            slurm=slurm,
            scancel_to_deletion=deleted - cancelled,
        )

    async def _when(self, name: str, what: str, holds: Callable[[Object], bool]) -> float:
        """When the watch first showed the pod so; raises SchedulerFailed."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < deadline:
            for seen in self._history.of(name):
                if holds(seen.pod):
                    return seen.at
            await asyncio.sleep(_LOOK_SECONDS)
        raise self._scheduler.failed(f"{name} is not {what} after {_PATIENCE_SECONDS:.0f} s")


async def _measure(found: Servers, folder: Path, *, rounds: int, hooks: bool) -> Figures:
    poll = SlurmPoll(found)
    with hooked.hooks(found, folder, on=hooks) as flags:
        async with (
            hands(found) as hand,
            Kube(found.kube_url, token=found.kube_token, ca=found.kube_ca) as kube,
            observed.running(found, folder, flags=(NO_BRAKE, *flags)) as scheduler,
        ):
            await scheduler.until_ready()
            history = History(kube, NAMESPACE)
            async with history.following():
                run = Run(scheduler, hand, poll=poll, history=history)
                await run.course("warm-up")
                courses = [await run.course(f"one-{number}") for number in range(rounds)]
    return _figures(found, courses, hooks=hooks, apart=poll.apart)


def _figures(found: Servers, courses: list[Course], *, hooks: bool, apart: list[float]) -> Figures:
    return Figures(
        servers=found.name,
        hooks=hooks,
        created_to_bound=Spread.of([it.created_to_bound for it in courses]),
        slurm=Spread.of([it.slurm for it in courses]),
        beyond_slurm=Spread.of([it.created_to_bound - it.slurm for it in courses]),
        scancel_to_deletion=Spread.of([it.scancel_to_deletion for it in courses]),
        poll=Spread.of(apart),
        courses=courses,
    )


def table(figures: Figures) -> str:
    """The figures for people, in milliseconds."""
    rows = {
        "created to bound": figures.created_to_bound,
        "of it Slurm's own time": figures.slurm,
        "beyond Slurm's own time": figures.beyond_slurm,
        "scancel to deletion asked": figures.scancel_to_deletion,
        "between two polls": figures.poll,
    }
    hooks = "with hooks" if figures.hooks else "without hooks"
    head = f"\none pod: {figures.servers}, {hooks}, {len(figures.courses)} rounds"
    lines = (
        _ROW.format(name, f"{it.p50 * 1000:.0f}", f"{it.p90 * 1000:.0f}")
        for name, it in rows.items()
    )
    return "\n".join((head, _ROW.format("", "p50 ms", "p90 ms"), *lines))


def main() -> int:
    """Measure and print; gives the exit status."""
    args = _arguments(sys.argv[1:])
    return status_of("one_pod", partial(_work, args), SchedulerFailed, ClearingFailed, ServersError)


def _work(args: argparse.Namespace) -> None:
    measured = list[Figures]()
    with servers_of(args) as found, TemporaryDirectory(prefix="one-pod-") as folder:
        for hooks in (False, True) if args.hooks else (False,):
            measure = _measure(found, Path(folder), rounds=args.rounds, hooks=hooks)
            measured.append(asyncio.run(measure))
            print(table(measured[-1]), flush=True)
    write_json(measured, args.json)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_pod", description=__doc__)
    add = parser.add_argument
    add("--on", choices=("sandbox", "live"), default="sandbox", help="default: sandbox")
    add("--release", choices=tuple(NODES), default="26.05", help="of Slurm; default: 26.05")
    add("--rounds", type=int, default=20, metavar="R", help="pods; default: 20")
    add("--hooks", action="store_true", help="then once more with Slurm's hooks; live only")
    add("--json", type=Path, metavar="FILE", help="write the figures there, too")
    args = parser.parse_args(argv)
    if not 1 <= args.rounds <= 1000:
        parser.error(f"--rounds is {args.rounds}: expected 1 to 1000")
    if args.hooks:
        check_hooks(parser, "--hooks", args)
    check_folder(parser, "--json", args.json)
    return args


if __name__ == "__main__":
    sys.exit(main())
