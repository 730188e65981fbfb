"""The phases of a run: pairs of bursts, waiting in a full cluster, release."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from benchmarks.main_path import bare, observed
from benchmarks.main_path.counting import CountingRelay
from benchmarks.main_path.figures import (
    Burst,
    Figures,
    Latency,
    Release,
    Relief,
    SchedulerBurst,
    Waiting,
)
from benchmarks.main_path.hands import NAMESPACE, Hands, hands
from benchmarks.main_path.hooked import hooks
from benchmarks.main_path.observed import (
    BOUND,
    KUBE_REQUESTS,
    SLURM_REQUESTS,
    STAGES,
    SUBMITTED,
    ObservedScheduler,
    Scrape,
)
from benchmarks.main_path.servers import Servers
from benchmarks.main_path.usage import cpu_seconds_below
from benchmarks.main_path.watched import watched
from tests.support.pods import node_of
from tests.support.slurm_rest import read_token

T = TypeVar("T")

_SETTLE_SECONDS: Final = 3.0


class BareLoopFailed(Exception):  # noqa: N818 - what is reported, not a fault of this program
    """The reference could not bind all pods."""


class Run:
    """One run on `servers`; `say` is called with each step."""

    def __init__(
        self, servers: Servers, hand: Hands, *, folder: Path, pods: int, say: Callable[[str], None]
    ) -> None:
        self._servers = servers
        self._hands = hand
        self._folder = folder
        self._pods = pods
        self._say = say
        self._patience = 120.0 + pods / 5.0

    async def all(self, *, rounds: int, watch_seconds: float, guard: bool) -> Figures:
        """Run all phases; raises SchedulerFailed, BareLoopFailed, ClearingFailed."""
        bares: list[Burst] = []
        schedulers: list[SchedulerBurst] = []
        guarded: list[SchedulerBurst] = []
        steps = {
            "bare loop": lambda: _add(bares, self._bare()),
            "scheduler": lambda: _add(schedulers, self._scheduler()),
        }
        if guard:
            steps["scheduler with the guard"] = lambda: _add(guarded, self._guarded())
        await self._in_turns(rounds, steps)
        waiting = await self._full(watch_seconds)
        bare_relief: list[float] = []
        relief: list[Relief] = []
        rooms = {
            "room for all at once, bare loop": lambda: _add(bare_relief, self._bare_relief()),
            "room for all at once, scheduler": lambda: _add(relief, self._relief()),
        }
        await self._in_turns(rounds, rooms)
        return Figures(
            servers=self._servers.name,
            nodes=self._servers.nodes,
            pods=self._pods,
            bare=bares,
            scheduler=schedulers,
            guarded=guarded,
            waiting=waiting,
            bare_relief=bare_relief,
            relief=relief,
        )

    async def _in_turns(
        self, rounds: int, steps: Mapping[str, Callable[[], Awaitable[None]]]
    ) -> None:
        """Take each step once a round, in every second round in reverse order. What comes later is
        slower: slurmctld remembers ended jobs for five minutes, and a thousand of them cost it
        0.08 ms of CPU a pod (measured).
        """
        for number in range(1, rounds + 1):
            for name in steps if number % 2 else reversed([*steps]):
                self._say(f"round {number} of {rounds}: {name}")
                await steps[name]()

    async def _bare(self) -> Burst:
        await self._hands.create(self._names(0, self._pods))
        before = cpu_seconds_below(os.getpid())
        async with self._bare_loop() as finished:
            outcome = await finished()
        servers = difference(before, cpu_seconds_below(os.getpid()))
        await self._all_run()
        ran_at = time.monotonic()
        await self._hands.clear(seconds=self._patience)
        return _bare_burst(outcome, servers=servers, ran_at=ran_at)

    @asynccontextmanager
    async def _bare_loop(self) -> AsyncIterator[Callable[[], Awaitable[bare.Outcome]]]:
        """The bare loop, with all pods that there are. What is returned waits for its end; it
        raises BareLoopFailed.
        """
        settings = settings_file(self._servers, self._folder, timeout_seconds=self._patience)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.main_path.bare", str(settings)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=dict(os.environ),
            # As the scheduler and the servers: Linux divides busy CPUs between sessions.
            start_new_session=True,
        )

        async def finished() -> bare.Outcome:
            printed, _ = await process.communicate()
            if process.returncode:
                raise BareLoopFailed(f"the bare loop ended with status {process.returncode}")
            return msgspec.json.decode(printed, type=bare.Outcome)

        try:
            yield finished
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _guarded(self) -> SchedulerBurst:
        """A burst with the guard: PrologSlurmctld of each job asks before its pod is bound."""
        with hooks(self._servers, self._folder, on=True) as flags:
            return await self._scheduler(*flags)

    async def _scheduler(self, *flags: str) -> SchedulerBurst:
        """A burst through the scheduler; like the bare loop it finds all pods at its start."""
        await self._hands.create(self._names(0, self._pods))
        flags = flags or ("--hooks-api-bind-address=0",)
        async with observed.running(self._servers, self._folder, flags=flags) as scheduler:
            await scheduler.until_logged(SUBMITTED, 1, seconds=self._patience)
            startup, queued = scheduler.cpu_seconds(), scheduler.queued_seconds()
            before = scheduler.servers_cpu_seconds()
            await scheduler.until_logged(BOUND, self._pods, seconds=self._patience)
            used = scheduler.cpu_seconds() - startup, scheduler.queued_seconds() - queued
            servers = difference(before, scheduler.servers_cpu_seconds())
            await self._all_run()
            ran_at = time.time()
            await self._all_bound(scheduler)
            scrape = await scheduler.scrape()
            return SchedulerBurst(
                burst=_burst(scheduler, scrape, used=used, servers=servers, ran_at=ran_at),
                startup_cpu_seconds=startup,
                longest_stall_seconds=scrape.longest_stall(),
                slurm_requests=scrape.total(SLURM_REQUESTS),
                kube_requests=scrape.total(KUBE_REQUESTS),
                slurm_operations=scrape.by("operation", SLURM_REQUESTS),
                kube_operations=scrape.by("operation", KUBE_REQUESTS),
                release=await self._release(),
            )

    async def _all_run(self) -> None:
        await self._hands.until("all pods run", self._hands.all_run, seconds=self._patience)

    async def _all_bound(self, scheduler: ObservedScheduler) -> None:
        """Check with the API server that all pods are bound; raises SchedulerFailed."""
        unbound = [pod for pod in await self._hands.pods() if node_of(pod) is None]
        if unbound:
            raise scheduler.failed(f"{len(unbound)} pods have no Node")

    async def _release(self) -> Release:
        began = time.monotonic()
        await self._hands.delete_pods()
        asked = time.monotonic() - began
        await self._hands.until("no pods", self._hands.no_pods, seconds=self._patience)
        gone = time.monotonic() - began
        await self._hands.until("no jobs", self._hands.none_left, seconds=self._patience)
        return Release(
            pods=self._pods,
            asked_seconds=asked,
            pods_gone_seconds=gone,
            jobs_gone_seconds=time.monotonic() - began,
        )

    async def _full(self, watch_seconds: float) -> list[Waiting]:
        """In a full cluster a tenth of the pods waits, then all of them."""
        await self._hands.fill()
        port = urlsplit(self._servers.slurm_url).port or 80
        async with (
            CountingRelay(port) as relay,
            observed.running(self._servers, self._folder, slurm_url=relay.url) as scheduler,
        ):
            await scheduler.until_ready()
            waiting, before = [], 0
            for count in (max(1, self._pods // 10), self._pods):
                self._say(f"{count} pods wait in a full cluster for {watch_seconds:.0f} s")
                await self._hands.create(self._names(before, count))
                await scheduler.until_logged(SUBMITTED, count, seconds=self._patience)
                await scheduler.until_settled(seconds=self._patience)
                waiting.append(await watched(scheduler, relay, pods=count, seconds=watch_seconds))
                before = count
        await self._hands.clear(seconds=self._patience)
        return waiting

    async def _bare_relief(self) -> float:
        """As `_relief`, for the bare loop: from the room until all pods are bound, in seconds."""
        everything = await self._hands.fill()
        await self._hands.create(self._names(0, self._pods))
        async with self._bare_loop() as finished:
            await self._hands.until("all jobs wait", self._all_submitted, seconds=self._patience)
            await asyncio.sleep(_SETTLE_SECONDS)
            freed = time.monotonic()
            await self._hands.cancel([everything])
            outcome = await finished()
        await self._hands.clear(seconds=self._patience)
        return max(it.bound for it in outcome.courses) - freed

    async def _all_submitted(self) -> bool:
        return len(await self._hands.live_jobs()) > self._pods

    async def _relief(self) -> Relief:
        """All pods wait in a full cluster, and then there is room for all of them at once."""
        everything = await self._hands.fill()
        await self._hands.create(self._names(0, self._pods))
        async with observed.running(self._servers, self._folder) as scheduler:
            await scheduler.until_logged(SUBMITTED, self._pods, seconds=self._patience)
            await scheduler.until_settled(seconds=self._patience)
            before = await scheduler.scrape()
            freed = time.time()
            await self._hands.cancel([everything])
            await scheduler.until_logged(BOUND, self._pods, seconds=self._patience)
            await self._all_bound(scheduler)
            scrape = await scheduler.scrape()
            took = max(scheduler.times(BOUND).values()) - freed
            return Relief(
                pods=self._pods,
                seconds=took,
                slurm_operations=_made(before, scrape, SLURM_REQUESTS),
                kube_operations=_made(before, scrape, KUBE_REQUESTS),
                allocated_to_bound=_allocated_to_bound(scrape, longest=took),
                stalls=scrape.stalls(since=before),
                peak_rss_mib=scheduler.peak_rss_mib(),
                release=await self._release(),
            )

    def _names(self, first: int, end: int) -> list[str]:
        return [f"bench-{number:05}" for number in range(first, end)]


def _made(before: Scrape, after: Scrape, name: str) -> Mapping[str, float]:
    """The requests between two looks at the metrics, by operation."""
    return difference(before.by("operation", name), after.by("operation", name))


async def run(
    servers: Servers,
    folder: Path,
    *,
    pods: int,
    rounds: int,
    watch_seconds: float,
    guard: bool,
    say: Callable[[str], None],
) -> Figures:
    """A whole run on these servers; returns its figures."""
    async with hands(servers) as both:
        steps = Run(servers, both, folder=folder, pods=pods, say=say)
        return await steps.all(rounds=rounds, watch_seconds=watch_seconds, guard=guard)


def settings_file(servers: Servers, folder: Path, *, timeout_seconds: float) -> Path:
    """The settings of a bare loop, in a file that only its owner reads."""
    settings = bare.Settings(
        kube_url=servers.kube_url,
        kube_token=servers.kube_token,
        kube_ca=str(servers.kube_ca or ""),
        slurm_url=servers.slurm_url,
        slurm_token=read_token(servers.slurm_token_file),
        release=servers.release,
        namespace=NAMESPACE,
        timeout_seconds=timeout_seconds,
    )
    path = folder / "bare.json"
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(settings))
    return path


async def _add(found: list[T], burst: Awaitable[T]) -> None:
    found.append(await burst)


def _burst(
    scheduler: ObservedScheduler,
    scrape: Scrape,
    *,
    used: tuple[float, float],
    servers: dict[str, float],
    ran_at: float,
) -> Burst:
    """`ran_at` is when all pods ran, in seconds since the epoch, as the times in the log."""
    submitted, bound = scheduler.times(SUBMITTED), scheduler.times(BOUND)
    took = [bound[uid] - submitted[uid] for uid in bound]
    return Burst(
        pods=len(bound),
        seconds=max(bound.values()) - min(submitted.values()),
        running_seconds=ran_at - min(submitted.values()),
        submit_to_bound=Latency.of(took),
        allocated_to_bound=_allocated_to_bound(scrape, longest=max(took)),
        cpu_seconds=used[0],
        queued_seconds=used[1],
        servers_cpu_seconds=servers,
        peak_rss_mib=scheduler.peak_rss_mib(),
        stalls=scrape.stalls(),
    )


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """What was used between two looks, by name."""
    return {name: used - before.get(name, 0.0) for name, used in after.items()}


def _allocated_to_bound(scrape: Scrape, *, longest: float) -> Latency:
    return Latency.of_buckets(scrape.buckets(STAGES, stage="bound"), longest=longest)


def _bare_burst(outcome: bare.Outcome, *, servers: dict[str, float], ran_at: float) -> Burst:
    """`ran_at` is when all pods ran, by the monotonic clock, which all processes share."""
    courses = outcome.courses
    if not courses:
        raise BareLoopFailed("the bare loop found no pods")
    return Burst(
        pods=len(courses),
        seconds=max(it.bound for it in courses) - min(it.submitted for it in courses),
        running_seconds=ran_at - min(it.submitted for it in courses),
        submit_to_bound=Latency.of([it.bound - it.submitted for it in courses]),
        allocated_to_bound=Latency.of([it.bound - it.allocated for it in courses]),
        cpu_seconds=outcome.cpu_seconds,
        queued_seconds=outcome.queued_seconds,
        servers_cpu_seconds=servers,
        peak_rss_mib=outcome.peak_rss_mib,
        stalls=outcome.stalls,
    )
