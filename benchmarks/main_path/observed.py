"""The scheduler in a process of its own, seen from outside: its log, its metrics, proc(5)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.main_path.figures import Latency, Stalls
from benchmarks.main_path.servers import Servers
from benchmarks.main_path.usage import (
    cpu_seconds,
    cpu_seconds_below,
    peak_rss_mib,
    queued_seconds,
    rss_mib,
)
from scheduler.config.settings import ENV_PREFIX
from tests.support.ports import free_ports

SUBMITTED: Final = "placeholder submitted"
BOUND: Final = "pod bound"
SLURM_REQUESTS: Final = "slurm_pod_scheduler_slurm_requests_total"
KUBE_REQUESTS: Final = "slurm_pod_scheduler_kube_requests_total"
STAGES: Final = "slurm_pod_scheduler_stage_seconds"
_STALLS: Final = "slurm_pod_scheduler_loop_stalls_total"
_LONGEST_LAG: Final = "slurm_pod_scheduler_loop_lag_max_seconds"
_LAG: Final = "slurm_pod_scheduler_loop_lag_seconds"
_CONDITION: Final = "patch_pod_status"
_LOOK_SECONDS: Final = 0.05
_SETTLE_SECONDS: Final = 5.0
_FEW_PER_SECOND: Final = 6.0
# Generous, because other work may slow the machine down; nobody reads the metrics again.
_READY_SECONDS: Final = 120.0
_ANSWER_SECONDS: Final = 30.0
_STOP_SECONDS: Final = 20.0
_TAIL_LINES: Final = 15


class SchedulerFailed(Exception):  # noqa: N818 - what is reported, not a fault of this program
    """The scheduler ended, or missed a deadline; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """One look at /metrics."""

    samples: tuple[tuple[str, Mapping[str, str], float], ...]

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of that name that have these labels."""
        return sum(
            value
            for found, having, value in self.samples
            if found == name and labels.items() <= having.items()
        )

    def by(self, label: str, name: str) -> dict[str, float]:
        """The same for each value of a label, without those that are 0."""
        values = {having[label] for found, having, _ in self.samples if found == name}
        found = {each: self.total(name, **{label: each}) for each in values}
        return {each: number for each, number in found.items() if number}

    def stalls(self, *, since: Scrape | None = None) -> Stalls:
        """The stalls of the event loop, all of them or those after another look."""
        before = since or Scrape(())
        busy, waiting = (
            int(self.total(_STALLS, cause=cause) - before.total(_STALLS, cause=cause))
            for cause in ("busy", "waiting")
        )
        return Stalls(busy, waiting)

    def longest_stall(self) -> float:
        """The longest time for which the event loop was late, in seconds since the start."""
        return self.total(_LONGEST_LAG)

    def loop_lag(self, *, since: Scrape) -> Latency:
        """How late the event loop was after another look."""
        before = dict(since.buckets(_LAG))
        more = [(bound, count - before.get(bound, 0.0)) for bound, count in self.buckets(_LAG)]
        return Latency.of_buckets(more, longest=self.longest_stall())

    def buckets(self, name: str, **labels: str) -> list[tuple[float, float]]:
        """Upper bounds and cumulative counts of a histogram."""
        return [
            (float(having["le"]), value)
            for found, having, value in self.samples
            if found == f"{name}_bucket" and labels.items() <= having.items()
        ]


class ObservedScheduler:
    """A running scheduler."""

    def __init__(
        self, process: asyncio.subprocess.Process, *, log: Path, probes: int, metrics: int
    ) -> None:
        self._process = process
        self._log = log
        self.probe_port = probes
        self.metrics_port = metrics
        self._probes = f"http://127.0.0.1:{probes}/readyz"
        self._metrics = f"http://127.0.0.1:{metrics}/metrics"

    def log_bytes(self) -> int:
        """The size of its log in bytes."""
        return self._log.stat().st_size

    def cpu_seconds(self) -> float:
        """CPU time since its start."""
        return self._used(cpu_seconds)

    def queued_seconds(self) -> float:
        """How long it has waited for a CPU since its start."""
        return self._used(queued_seconds)

    def servers_cpu_seconds(self) -> Mapping[str, float]:
        """CPU time of the servers since their start, by the name of the process."""
        return cpu_seconds_below(os.getpid(), without=self._process.pid)

    def peak_rss_mib(self) -> float:
        """Its peak resident memory."""
        return self._used(peak_rss_mib)

    def rss_mib(self) -> float:
        """Its resident memory now."""
        return self._used(rss_mib)

    def _used(self, figure: Callable[[int], float]) -> float:
        try:
            return figure(self._process.pid)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise self.failed("has ended") from error

    async def scrape(self) -> Scrape:
        """Its metrics now; raises SchedulerFailed."""
        try:
            _status, text = await _get(self._metrics)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise self.failed(f"/metrics does not answer: {error}") from error
        return Scrape(
            tuple(
                (sample.name, sample.labels, float(sample.value))
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            )
        )

    def times(self, event: str, *, by: str = "uid") -> dict[str, float]:
        """When, in epoch seconds, each value of a field was first logged with that event: the key
        of the unit ("uid"), or the name of the pod or gang ("pod").
        """
        marker = f'"{event}"'.encode()
        found: dict[str, float] = {}
        for line in self._log.read_bytes().splitlines():
            if marker in line:
                entry: dict[str, Any] = msgspec.json.decode(line)
                at = datetime.fromisoformat(entry["timestamp"]).timestamp()
                found.setdefault(entry[by], at)
        return found

    async def until_logged(self, event: str, count: int, *, seconds: float) -> None:
        """Wait for `count` log lines with that event; raises SchedulerFailed."""
        marker, seen, offset = f'"{event}"'.encode(), 0, 0
        deadline = asyncio.get_running_loop().time() + seconds
        with self._log.open("rb") as log:
            while seen < count:
                self._alive()
                if asyncio.get_running_loop().time() > deadline:
                    raise self.failed(f"{seen} of {count} pods: {event}, after {seconds:.0f} s")
                log.seek(offset)
                whole, newline, _partial = log.read().rpartition(b"\n")
                offset += len(whole + newline)
                seen += whole.count(marker)
                await asyncio.sleep(_LOOK_SECONDS)

    async def until_settled(self, *, seconds: float) -> None:
        """Wait until it writes few conditions: all pods show that their jobs wait, and only what
        looks at pending jobs find out is added, four a second at most. Raises SchedulerFailed.
        """
        former, written = float("-inf"), 0.0
        try:
            async with asyncio.timeout(seconds):
                while written - former > _FEW_PER_SECOND * _SETTLE_SECONDS:
                    await asyncio.sleep(_SETTLE_SECONDS)
                    operations = (await self.scrape()).by("operation", KUBE_REQUESTS)
                    former, written = written, operations.get(_CONDITION, 0.0)
        except TimeoutError:
            raise self.failed(f"many conditions are still written after {seconds:.0f} s") from None

    def failed(self, why: str) -> SchedulerFailed:
        """The error to raise, with the end of the log."""
        tail = self._log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return SchedulerFailed("\n".join((f"scheduler: {why}; its log ends with:", *tail)))

    async def until_ready(self) -> None:
        """Wait for /readyz; raises SchedulerFailed."""
        deadline = asyncio.get_running_loop().time() + _READY_SECONDS
        while True:
            self._alive()
            try:
                if (await _get(self._probes))[0] == 200:
                    return
            except (aiohttp.ClientError, TimeoutError):
                pass
            if asyncio.get_running_loop().time() > deadline:
                raise self.failed(f"not ready after {_READY_SECONDS:.0f} s")
            await asyncio.sleep(_LOOK_SECONDS)

    def _alive(self) -> None:
        if self._process.returncode is not None:
            raise self.failed(f"ended with status {self._process.returncode}")


@asynccontextmanager
async def running(
    servers: Servers,
    folder: Path,
    *,
    slurm_url: str = "",
    flags: Sequence[str] = ("--hooks-api-bind-address=0",),
) -> AsyncIterator[ObservedScheduler]:
    """`python -m scheduler run`, with defaults apart from `flags`; stopped at the block's end."""
    probes, metrics = free_ports(2)
    log = folder / f"scheduler-{probes}.log"
    descriptor = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scheduler", "run"),
            f"--kubeconfig={servers.kubeconfig}",
            f"--slurm-api-base={slurm_url or servers.slurm_url}",
            f"--slurm-auth-token-file={servers.slurm_token_file}",
            *("--scheduler-name=slurm-scheduler", "--log-format=json"),
            # The nodes of the sandbox have a slurmd, and with "auto" those would wait for a guard.
            f"--placeholder-mode={'external' if servers.external else 'script'}",
            f"--health-probe-bind-address=127.0.0.1:{probes}",
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            *flags,
            env={key: it for key, it in os.environ.items() if not key.startswith(ENV_PREFIX)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    try:
        yield ObservedScheduler(process, log=log, probes=probes, metrics=metrics)
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    try:
        async with asyncio.timeout(_STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _get(url: str) -> tuple[int, str]:
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
        return response.status, await response.text()
