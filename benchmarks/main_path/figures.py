"""The figures of a run, and how latencies are summed up."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec


class Latency(msgspec.Struct, frozen=True):
    """Quantiles in seconds."""

    p50: float
    p99: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """Quantiles by rank, from all values."""
        ordered = sorted(seconds)
        return cls(*(ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99)))

    @classmethod
    def of_buckets(cls, buckets: Sequence[tuple[float, float]], *, longest: float) -> Latency:
        """Quantiles from a cumulative histogram, interpolated as histogram_quantile does.

        `longest` is the known maximum; the last bucket may end far beyond it.
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
    """How often the event loop was late by over 50 ms: `busy` because it computed, `waiting`
    because it had no CPU, as far as the machine has no other work.
    """

    busy: int
    waiting: int

    def __str__(self) -> str:
        return f"{self.busy} + {self.waiting}"


class Burst(msgspec.Struct, frozen=True, kw_only=True):
    """N pods from the first answered submit to the last bind; `running_seconds` is how long it took
    until all containers ran.

    CPU seconds, and seconds spent waiting for a CPU, are of that time. Those of the servers, by the
    name of the process, also include the bare loop's start, which lists the pods.
    """

    pods: int
    seconds: float
    running_seconds: float
    submit_to_bound: Latency
    allocated_to_bound: Latency
    cpu_seconds: float
    queued_seconds: float
    servers_cpu_seconds: dict[str, float]
    peak_rss_mib: float
    stalls: Stalls

    @property
    def per_second(self) -> float:
        """Pods bound per second."""
        return self.pods / self.seconds


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """All pods deleted at once: seconds from the first request until none is left."""

    pods: int
    asked_seconds: float
    pods_gone_seconds: float
    jobs_gone_seconds: float


class SchedulerBurst(msgspec.Struct, frozen=True, kw_only=True):
    """A burst through the scheduler, and what else it showed. Requests are counted from the start
    of the process, in all and by operation.
    """

    burst: Burst
    startup_cpu_seconds: float
    longest_stall_seconds: float
    slurm_requests: float
    kube_requests: float
    slurm_operations: dict[str, float]
    kube_operations: dict[str, float]
    release: Release


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What waiting pods cost: requests per second by two counts, and the share of one CPU."""

    pods: int
    seconds: float
    requests_per_second: float
    counted_on_the_wire: float
    cpu_share: float
    stalls: Stalls


class Relief(msgspec.Struct, frozen=True, kw_only=True):
    """The full cluster becomes free at once: until all pods that waited are bound. The operations
    are the requests from then on, by name.
    """

    pods: int
    seconds: float
    slurm_operations: Mapping[str, float]
    kube_operations: Mapping[str, float]
    allocated_to_bound: Latency
    stalls: Stalls
    peak_rss_mib: float
    release: Release


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run: one burst of each kind per round; `guarded` ones only on request."""

    servers: str
    nodes: int
    pods: int
    bare: list[Burst]
    scheduler: list[SchedulerBurst]
    guarded: list[SchedulerBurst]
    waiting: list[Waiting]
    bare_relief: list[float]
    """Seconds from the room for all pods until the bare loop had bound them."""
    relief: list[Relief]

    @property
    def ratios(self) -> list[float]:
        """The scheduler's pods per second divided by the bare loop's, for each round."""
        pairs = zip(self.bare, self.scheduler, strict=True)
        return [full.burst.per_second / bare.per_second for bare, full in pairs]

    @property
    def running_ratios(self) -> list[float]:
        """The same until all containers ran: the kubelets' work is in both."""
        pairs = zip(self.bare, self.scheduler, strict=True)
        return [bare.running_seconds / full.burst.running_seconds for bare, full in pairs]

    @property
    def guard_ratios(self) -> list[float]:
        """Pods per second with the handover guard divided by those without it, for each round."""
        pairs = zip(self.guarded, self.scheduler, strict=False)
        return [on.burst.per_second / off.burst.per_second for on, off in pairs]

    @property
    def relief_ratios(self) -> list[float]:
        """How many times longer the scheduler took than the bare loop after there was room."""
        pairs = zip(self.bare_relief, self.relief, strict=True)
        return [full.seconds / bare for bare, full in pairs]
