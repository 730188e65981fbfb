"""The figures as a table for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from operator import itemgetter
from typing import Final

from benchmarks.main_path.figures import (
    Burst,
    Figures,
    Latency,
    Release,
    Relief,
    SchedulerBurst,
)

# A server that uses less is not named.
_LEAST_SHOWN_MS: Final = 0.02
# An operation with fewer requests a pod is not named.
_LEAST_REQUESTS: Final = 0.005
_BURST = "  {:<13}{:>8}{:>7}{:>8}{:>7}  {:>15}  {:>18}{:>8}{:>8}{:>11}{:>9}"


def table(figures: Figures) -> str:
    """All of it."""
    return "\n".join(
        [
            *(f"\nmain path: {figures.pods} pods on {figures.servers}, {figures.nodes} nodes", ""),
            *_bursts(figures),
            *("", *_servers(figures)),
            *("", *_scheduler(figures)),
            *("", *_waiting(figures)),
        ]
    )


def _bursts(figures: Figures) -> Iterator[str]:
    heads = (
        "",
        "pods/s",
        "ratio",
        "all run",
        "ratio",
        "submit-bound ms",
        "allocated-bound ms",
        "CPU s",
        "queued",
        "stalls",
    )
    yield _BURST.format(*heads, "RSS MiB")
    yield _BURST.format("", "", "", "s", "", "p50 / p99", "p50 / p99", "", "s", "busy+wait", "peak")
    ratios = zip(figures.ratios, figures.running_ratios, strict=True)
    rounds = zip(figures.bare, figures.scheduler, ratios, strict=True)
    for number, (bare, full, (ratio, running)) in enumerate(rounds, 1):
        yield _burst_line(f"{number} bare loop", bare)
        yield _burst_line(f"{number} scheduler", full.burst, f"{ratio:.2f}", f"{running:.2f}")
        if figures.guarded:
            burst, by = figures.guarded[number - 1].burst, figures.guard_ratios[number - 1]
            yield _burst_line(f"{number} with guard", burst, f"{by:.2f}")


def _burst_line(label: str, burst: Burst, ratio: str = "", running_ratio: str = "") -> str:
    return _BURST.format(
        label,
        f"{burst.per_second:.1f}",
        ratio,
        f"{burst.running_seconds:.1f}",
        running_ratio,
        _milliseconds(burst.submit_to_bound),
        _milliseconds(burst.allocated_to_bound),
        f"{burst.cpu_seconds:.2f}",
        f"{burst.queued_seconds:.2f}",
        str(burst.stalls),
        f"{burst.peak_rss_mib:.0f}",
    )


def _servers(figures: Figures) -> Iterator[str]:
    """The servers' CPU time for each pod, in both kinds of bursts."""
    for number, (bare, full) in enumerate(zip(figures.bare, figures.scheduler, strict=True), 1):
        for label, burst in (("bare loop", bare), ("scheduler", full.burst)):
            yield f"  {number} {label}: CPU ms a pod of the servers: {_shares(burst)}"


def _shares(burst: Burst) -> str:
    each = {name: 1000 * used / burst.pods for name, used in burst.servers_cpu_seconds.items()}
    most = sorted(each.items(), key=itemgetter(1), reverse=True)
    listed = (f"{name} {used:.2f}" for name, used in most if used >= _LEAST_SHOWN_MS)
    return ", ".join((f"{sum(each.values()):.2f} in all", *listed))


def _scheduler(figures: Figures) -> Iterator[str]:
    for number, full in enumerate(figures.scheduler, 1):
        pods = full.burst.pods
        yield (
            f"  {number} scheduler: longest stall {1000 * full.longest_stall_seconds:.0f} ms, "
            f"requests per pod {full.slurm_requests / pods:.2f} to Slurm and "
            f"{full.kube_requests / pods:.2f} to Kubernetes, "
            f"start-up {full.startup_cpu_seconds:.2f} CPU s"
        )
        yield from _requests(full, pods)
        yield f"    release: {_release(full.release)}"


def _requests(found: SchedulerBurst | Relief, pods: int) -> Iterator[str]:
    for server, counted in (
        ("Slurm", found.slurm_operations),
        ("Kubernetes", found.kube_operations),
    ):
        yield f"    requests per pod to {server}: {_operations(counted, pods)}"


def _operations(counted: Mapping[str, float], pods: int) -> str:
    most = sorted(counted.items(), key=itemgetter(1), reverse=True)
    each = ((name, number / pods) for name, number in most)
    return ", ".join(f"{name} {number:.2f}" for name, number in each if number >= _LEAST_REQUESTS)


def _waiting(figures: Figures) -> Iterator[str]:
    for waiting in figures.waiting:
        yield (
            f"  {waiting.pods:>6} pods wait: {waiting.requests_per_second:5.2f} requests/s to "
            f"slurmrestd ({waiting.counted_on_the_wire:.2f} on the wire) over "
            f"{waiting.seconds:.0f} s, {100 * waiting.cpu_share:.1f} % CPU, "
            f"stalls {waiting.stalls}"
        )
    pairs = zip(figures.relief, figures.relief_ratios, strict=True)
    for number, (relief, ratio) in enumerate(pairs, 1):
        yield (
            f"  {number} {relief.pods} get room at once: all bound after {relief.seconds:.1f} s, "
            f"{ratio:.2f} times as long as the bare loop, "
            f"allocated-bound {_milliseconds(relief.allocated_to_bound)} ms, "
            f"stalls {relief.stalls}, peak RSS {relief.peak_rss_mib:.0f} MiB"
        )
        yield from _requests(relief, relief.pods)
        yield f"    release: {_release(relief.release)}"


def _release(release: Release) -> str:
    return (
        f"{release.pods} deletions asked within {release.asked_seconds:.1f} s, "
        f"no pod left after {release.pods_gone_seconds:.1f} s, "
        f"no job after {release.jobs_gone_seconds:.1f} s"
    )


def _milliseconds(latency: Latency) -> str:
    return f"{1000 * latency.p50:.0f} / {1000 * latency.p99:.0f}"
