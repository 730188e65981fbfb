"""`python -m benchmarks.tenants --on sandbox --seconds 600`: an honest tenant beside hostile ones.

The honest tenant creates pods at a steady pace, first alone, then while others edit their pods
without end, write huge annotations and hold silent connections to every port of the scheduler.
What counts is the ratio of the two phases' p99 from created to bound, and the scheduler's memory.
Exit status 1 if an honest pod got no Node or the scheduler's memory passed its limit. The latency
ratio is printed beside its goal and decides nothing: a busy machine can spoil any time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from benchmarks.command import check_folder, check_number, status_of
from benchmarks.main_path import observed, servers
from benchmarks.main_path.observed import ObservedScheduler, SchedulerFailed
from benchmarks.main_path.servers import NODES, Servers
from benchmarks.tenants.attacks import Target, Tenants
from benchmarks.tenants.honest import HonestTenant, Served
from tests.support.hooks import TlsFiles, secret_file
from tests.support.kube import Kube
from tests.support.ports import free_ports

_PODS_PER_SECOND: Final = 5.0
_QUIET_SECONDS: Final = 60.0
_GOAL_RATIO: Final = 2.0
_MOST_RSS_MIB: Final = 256.0
_NAMESPACES: Final = ("honest", "hostile")
_STALLS: Final = "slurm_pod_scheduler_loop_stalls_total"
_REQUESTS: Final = "slurm_pod_scheduler_slurm_requests_total"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the scheduler did in one phase."""

    cpu_seconds: float
    busy_stalls: float
    slurm_requests: float
    log_bytes: float

    def __sub__(self, other: Cost) -> Cost:
        return Cost(
            cpu_seconds=self.cpu_seconds - other.cpu_seconds,
            busy_stalls=self.busy_stalls - other.busy_stalls,
            slurm_requests=self.slurm_requests - other.slurm_requests,
            log_bytes=self.log_bytes - other.log_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A whole run."""

    servers: str
    seconds: float
    quiet: Served
    attacked: Served
    quiet_cost: Cost
    attacked_cost: Cost
    attacks: dict[str, int]
    peak_rss_mib: float

    @property
    def ratio(self) -> float:
        """The p99 under attack divided by the p99 before it."""
        return self.attacked.latency.p99 / self.quiet.latency.p99

    def failures(self) -> list[str]:
        """The limits that were passed."""
        missing = self.quiet.missing + self.attacked.missing
        found = {
            f"{missing} honest pods got no Node": missing > 0,
            f"RSS was {self.peak_rss_mib:.0f} MiB, over {_MOST_RSS_MIB:.0f}": (
                self.peak_rss_mib > _MOST_RSS_MIB
            ),
        }
        return [text for text, failed in found.items() if failed]


async def _cost(scheduler: ObservedScheduler) -> Cost:
    """The cost so far. A scrape may have to wait behind the attackers' connections."""
    scrape = await scheduler.scrape()
    return Cost(
        cpu_seconds=scheduler.cpu_seconds(),
        busy_stalls=scrape.total(_STALLS, cause="busy"),
        slurm_requests=scrape.total(_REQUESTS),
        log_bytes=scheduler.log_bytes(),
    )


@asynccontextmanager
async def _scheduler(
    found: Servers, folder: Path, hooks_port: int
) -> AsyncIterator[ObservedScheduler]:
    tls = TlsFiles(folder)
    flags = (
        f"--hooks-api-bind-address=127.0.0.1:{hooks_port}",
        f"--hooks-api-token-file={secret_file(folder)}",
        f"--hooks-api-tls-cert-file={tls.certificate}",
        f"--hooks-api-tls-key-file={tls.key}",
    )
    async with observed.running(found, folder, flags=flags) as scheduler:
        await scheduler.until_ready()
        yield scheduler


async def _measure(found: Servers, folder: Path, seconds: float, silent: int) -> Figures:
    (hooks_port,) = free_ports(1)
    async with (
        Kube(found.kube_url, token=found.kube_token, ca=found.kube_ca) as kube,
        Kube(found.kube_url, token=found.kube_token, ca=found.kube_ca) as hostile,
        _scheduler(found, folder, hooks_port) as scheduler,
    ):
        for namespace in _NAMESPACES:
            await kube.create_namespace(namespace)
        honest = HonestTenant(kube, _NAMESPACES[0], _PODS_PER_SECOND)
        await honest.work("warm-up", seconds=5)
        began = await _cost(scheduler)
        quiet = await honest.work("quiet", seconds=min(_QUIET_SECONDS, seconds))
        between = await _cost(scheduler)
        tenants = Tenants(
            Target(
                kube=hostile,
                namespace=_NAMESPACES[1],
                probe_port=scheduler.probe_port,
                metrics_port=scheduler.metrics_port,
                hooks_port=hooks_port,
                silent=silent,
            )
        )
        attacking = asyncio.create_task(tenants.run(), name="tenants")
        attacked = await honest.work("attacked", seconds=seconds)
        attacking.cancel()
        await asyncio.gather(attacking, return_exceptions=True)
        ended = await _cost(scheduler)
        return Figures(
            servers=found.name,
            seconds=seconds,
            quiet=quiet,
            attacked=attacked,
            quiet_cost=between - began,
            attacked_cost=ended - between,
            attacks=tenants.done,
            peak_rss_mib=scheduler.peak_rss_mib(),
        )


def _show(figures: Figures) -> None:
    print(f"{figures.servers}: {figures.seconds:.0f} s of attacks, {_PODS_PER_SECOND:.0f} pods/s")
    for name, served, cost in (
        ("quiet", figures.quiet, figures.quiet_cost),
        ("attacked", figures.attacked, figures.attacked_cost),
    ):
        print(
            f"{name:9} {served.bound} of {served.created} pods bound, created to bound p50 "
            f"{served.latency.p50:.2f} s, p99 {served.latency.p99:.2f} s; scheduler: "
            f"{cost.cpu_seconds:.1f} CPU s, {cost.slurm_requests:.0f} requests to Slurm, "
            f"{cost.busy_stalls:.0f} stalls of its own, {cost.log_bytes / 1024:.0f} KiB of log"
        )
    for name, count in figures.attacks.items():
        print(f"  {name}: {count}")
    print(
        f"p99 ratio {figures.ratio:.2f} (goal: at most {_GOAL_RATIO}), peak RSS "
        f"{figures.peak_rss_mib:.0f} MiB (limit: {_MOST_RSS_MIB:.0f})"
    )


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tenants", description=__doc__)
    parser.add_argument("--on", choices=("sandbox", "live"), default="sandbox")
    parser.add_argument("--release", choices=tuple(NODES), default="26.05")
    parser.add_argument("--seconds", type=float, default=600.0, help="of attacks; default: 600")
    parser.add_argument(
        "--silent", type=int, default=1100, help="silent connections to each port; default: 1100"
    )
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    asked = parser.parse_args(argv)
    check_number(parser, "--seconds", asked.seconds, within=(1, 86_400))
    check_number(parser, "--silent", asked.silent, within=(0, 100_000))
    check_folder(parser, "--json", asked.json)
    return asked


def main() -> int:
    """Run and print; gives the exit status."""
    asked = _arguments(sys.argv[1:])
    failures = list[str]()
    failed = status_of("tenants", lambda: failures.extend(_work(asked)), SchedulerFailed)
    for text in failures:
        print(f"FAILED: {text}")
    return failed or bool(failures)


def _work(asked: argparse.Namespace) -> list[str]:
    """Run and print; gives the limits that were passed."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    on = (
        servers.sandbox(asked.release, NODES[asked.release])
        if asked.on == "sandbox"
        else servers.live(asked.release)
    )
    with on as found, TemporaryDirectory(prefix="tenants-") as folder:
        figures = asyncio.run(_measure(found, Path(folder), asked.seconds, asked.silent))
    _show(figures)
    if asked.json:
        asked.json.write_text(json.dumps(asdict(figures), default=msgspec.to_builtins, indent=2))
    return figures.failures()


if __name__ == "__main__":
    sys.exit(main())
