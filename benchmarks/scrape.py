"""What /metrics costs: a scrape with few and with many units, and the count behind its gauges.

`python -m benchmarks.scrape --units 5000`. All labels have values as after days of work, so that
the number of series is that of a scheduler in use. The longest turn is the longest time for which
the event loop is blocked.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import time
from collections.abc import Coroutine
from typing import Any, Final

from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase

from scheduler.core.pending_reasons import LABELS
from scheduler.core.tagged import TaggedJob
from scheduler.kube.store import Joined
from scheduler.kube.wire import Container, ObjectMeta, Pod, PodSpec, ResourceRequirements
from scheduler.observe.metrics import Metrics
from scheduler.service.unit_counts import UnitCounts
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState, JobState

_REPEATS: Final = 5
_NAMESPACES: Final = 50
_PARTITIONS: Final = 8
_OPERATIONS: Final = {
    "slurm": ("submit", "job", "job_states", "cancel", "update", "config", "nodes", "ping"),
    "kube": ("bind", "patch_pod_status", "create_event", "list_pods", "watch_pods", "watch_nodes"),
}
_OUTCOMES: Final = ("ok", "unreachable", "interrupted", "busy")
_GPU: Final = "nvidia.com/gpu"
_SPEC: Final = PodSpec(
    containers=(Container(resources=ResourceRequirements(requests={"cpu": "4", _GPU: "2"})),)
)
_PENDING: Final = JobState(BaseState.PENDING)
_RUNNING: Final = JobState(BaseState.RUNNING)


def _in_use(metrics: Metrics) -> None:
    """Give the metrics all series that they have after days of work."""
    for api, call in (("slurm", metrics.slurm_call), ("kube", metrics.kube_call)):
        for operation, outcome in itertools.product(_OPERATIONS[api], _OUTCOMES):
            call(operation, outcome, 0.01)
    for hook, answer in itertools.product(("guard", "gone"), ("free", "freed", "busy")):
        metrics.hook_seconds.labels(hook, answer).observe(0.1)
    for action, outcome in itertools.product(("submit", "bind", "cancel"), ("ok", "refused")):
        metrics.actions.labels(action, outcome).inc()


def _unit(number: int, reasons: list[str]) -> Unit:
    waits = number % 4 == 0
    record = TaggedJob(
        job_id=number + 1,
        name=f"job-{number}",
        state=_PENDING if waits else _RUNNING,
        state_reason=reasons[number // 4 % len(reasons)] if waits else "None",
        nodes=(),
        admin_comment="",
        partition=f"part-{number % _PARTITIONS}",
        priority=1,
    )
    job = Placeholder(number + 1, state=record.state, record=record, proven=True)
    name = f"team-{number % _NAMESPACES}"
    return Unit(f"uid-{number}", name, f"pod-{number}", seen_at=0.0, job=job, waiting=waits)


def _scene(units: int) -> tuple[Metrics, UnitCounts]:
    metrics, held, pods = Metrics(), Units(), Joined[Pod]()
    store, reasons = pods.new(), sorted(LABELS)
    for number in range(units):
        unit = held.add(_unit(number, reasons))
        meta = ObjectMeta(name=unit.name, namespace=unit.namespace, uid=unit.key)
        store.apply(Pod(meta, spec=_SPEC))
    counts = UnitCounts(
        metrics,
        units=held,
        pods=pods,
        gpus=frozenset({_GPU}),
        leads=lambda: True,
        clock=time.monotonic,
    )
    _in_use(metrics)
    return metrics, counts


async def _longest_turn(work: Coroutine[Any, Any, None]) -> tuple[float, float]:
    """Seconds that the work took, and the longest time for which it blocked the event loop."""
    task = asyncio.ensure_future(work)
    began = last = time.perf_counter()
    longest = 0.0
    while not task.done():
        await asyncio.sleep(0)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    return last - began, longest


def _scraped(metrics: Metrics) -> tuple[float, int]:
    """Seconds of a scrape, the best of a few, and its size in bytes."""
    best, size = math.inf, 0
    for _ in range(_REPEATS):
        began = time.perf_counter()
        size = len(generate_latest(metrics.registry))
        best = min(best, time.perf_counter() - began)
    return best, size


async def run(units: int) -> None:
    """Measure and print."""
    print(f"{'units':>8}{'series':>8}{'bytes':>10}{'scrape ms':>11}{'count ms':>10}{'turn ms':>9}")
    for number in (0, units):
        metrics, counts = _scene(number)
        took = [await _longest_turn(counts.count()) for _ in range(_REPEATS)]
        scrape, size = _scraped(metrics)
        count, turn = min(it[0] for it in took), min(it[1] for it in took)
        print(
            f"{number:>8}{_series(metrics):>8}{size:>10}"
            f"{scrape * 1e3:>11.1f}{count * 1e3:>10.1f}{turn * 1e3:>9.1f}"
        )


def _series(metrics: Metrics) -> int:
    ours = [it for it in vars(metrics).values() if isinstance(it, MetricWrapperBase)]
    return sum(len(family.samples) for metric in ours for family in metric.collect())


def main() -> None:
    """Read the flags and run."""
    parser = argparse.ArgumentParser(prog="benchmarks.scrape", description=__doc__)
    parser.add_argument("--units", type=int, default=5000, help="default 5000")
    units: int = parser.parse_args().units
    if units < 1:
        parser.error(f"--units is {units}: expected at least 1")
    asyncio.run(run(units))


if __name__ == "__main__":
    main()
