"""The figures of a run, and how latencies are summed up."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec


class Latency(msgspec.Struct, frozen=True):
    """Seconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """By rank, of every value."""
        ordered = sorted(seconds)
        return cls(*(ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99)))

    @classmethod
    def of_buckets(cls, buckets: Sequence[tuple[float, float]], *, longest: float) -> Latency:
        """Of a cumulative histogram, evenly spread within a bucket, as histogram_quantile does.

        `longest` is a value that is known to be above all; the last bucket may end far beyond it.
        """
        capped = [(min(bound, longest), count) for bound, count in sorted(buckets)]
        return cls(*(_quantile(share, capped) for share in (0.5, 0.99)))


def _quantile(share: float, buckets: Sequence[tuple[float, float]]) -> float:
    wanted = share * buckets[-1][1]
    low, below = 0.0, 0.0
    for high, count in buckets:
        if count >= wanted and count > below:
            return low + (high - low) * (wanted - below) / (count - below)
        low, below = high, count
    return low


class Stalls(msgspec.Struct, frozen=True):
    """Times the event loop was late by over 50 ms: because it computed, or because it had to wait,
    on a machine with nothing else to do but for a CPU.
    """

    busy: int
    waiting: int

    def __str__(self) -> str:
        return f"{self.busy} + {self.waiting}"


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """N pods from the first answered submit to the last bind.

    CPU seconds, and seconds spent waiting for a CPU, are of that time.
    """

    pods: int
    seconds: float
    submit_to_bound: Latency
    allocated_to_bound: Latency
    cpu_seconds: float
    queued_seconds: float
    peak_rss_mib: float
    stalls: Stalls

    @property
    def per_second(self) -> float:
        """Pods bound each second."""
        return self.pods / self.seconds


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """All pods deleted at once: seconds from the first request until none is left."""

    pods: int
    asked_seconds: float
    pods_gone_seconds: float
    jobs_gone_seconds: float


class SchedulerBurst(msgspec.Struct, frozen=True, kw_only=True):
    """A burst through the scheduler, and what else it showed."""

    burst: Burst
    startup_cpu_seconds: float
    longest_stall_seconds: float
    slurm_requests: float
    kube_requests: float
    release: Release


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What it costs that pods wait: requests each second by two counts, share of one CPU."""

    pods: int
    seconds: float
    requests_per_second: float
    counted_on_the_wire: float
    cpu_share: float
    stalls: Stalls


class Relief(msgspec.Struct, frozen=True, kw_only=True):
    """The full cluster becomes free at once: until all pods that waited are bound."""

    pods: int
    seconds: float
    allocated_to_bound: Latency
    stalls: Stalls
    peak_rss_mib: float
    release: Release


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run; a burst of each kind a round, `guarded` ones only where they were asked for."""

    servers: str
    nodes: int
    pods: int
    bare: list[Burst]
    scheduler: list[SchedulerBurst]
    guarded: list[SchedulerBurst]
    waiting: list[Waiting]
    relief: Relief

    @property
    def ratios(self) -> list[float]:
        """The scheduler's pods per second by the bare loop's, round by round."""
        pairs = zip(self.bare, self.scheduler, strict=True)
        return [full.burst.per_second / bare.per_second for bare, full in pairs]

    @property
    def guard_ratios(self) -> list[float]:
        """Pods per second with the handover guard on by those with it off, round by round."""
        pairs = zip(self.guarded, self.scheduler, strict=False)
        return [on.burst.per_second / off.burst.per_second for on, off in pairs]
