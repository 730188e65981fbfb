"""Every query of every panel returns data in one scenario that contains everything to show.

Panels that only faults fill are listed with the reason, and queried after faults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

import pytest

from deploy.helm.dashboards import DASHBOARDS
from tests.support import rights
from tests.support.handover import cancel_placeholder, next_job, running_pod
from tests.support.hooks import hooks_on
from tests.support.monitoring import Monitor
from tests.support.world import World

pytestmark = pytest.mark.live

# The values that Grafana would insert. The window covers the whole scenario.
_FILLED_IN: Final = {"$__rate_interval": "3m", "$namespace": ".+", "$instance": ".+"}

ONLY_FAULTS: Final[Mapping[str, str]] = {
    "operators: Alerts": "none fires",
    "operators: Actions that failed": "none fails",
    "operators: slurmrestd: Requests that failed": "none fails",
    "operators: Kubernetes API: Requests that failed": "none fails",
}


def queries() -> dict[str, str]:
    """All queries of both dashboards. A key has dashboard, panel and, if needed, row and number."""
    found = {}
    for dashboard in DASHBOARDS:
        for row in dashboard.rows:
            of_api = f"{row.title}: " if row.title in {"slurmrestd", "Kubernetes API"} else ""
            for panel in row.panels:
                name = f"{dashboard.name}: {of_api}{panel.title}"
                for number, query in enumerate(panel.queries):
                    found[f"{name} {number}" if number else name] = filled_in(query.expr)
    return found


def filled_in(expr: str) -> str:
    """The query as Grafana sends it."""
    for name, value in _FILLED_IN.items():
        expr = expr.replace(name, value)
    return expr


async def test_every_panel_has_something_to_show(world: World, monitor: Monitor) -> None:
    await _life(world)
    await monitor.gives_data({k: it for k, it in queries().items() if k not in ONLY_FAULTS})
    try:
        await _trouble(world, monitor)
        await monitor.gives_data(queries())
    finally:
        await world.cluster.start("slurmrestd")
        await rights.grant(world.kube)


async def _life(world: World) -> None:
    """Pods run, wait, are refused and are deleted. A job waits for a pod to leave its node."""
    await world.create("runs")
    await world.running("runs")
    await world.set_partition(world.cluster.high_partition, state="DOWN")
    await world.create("waits", slurm={"partition": world.cluster.high_partition})
    await world.waiting("waits")
    await world.create("refused", slurm={"timeout": "7200"})
    await world.event("SchedulingFailed", name="refused")
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await running_pod(world)
        following = await next_job(world, pod)
        await cancel_placeholder(world, pod)
        await world.job_ended(following, state="COMPLETED")
    await world.gone()
    # The first wait that is observed in a partition begins a series, and rates see the second.
    await world.create("again")
    await world.running("again")
    # While a unit is left, the scheduler may still ask for its job.
    await world.until("there is no unit without a pod", lambda: _one_unit_each(world))


async def _one_unit_each(world: World) -> bool:
    metrics = await asyncio.to_thread(world.scheduler.metrics)
    there = await world.kube.items("pods", namespace=world.namespace)
    return metrics["slurm_pod_scheduler_pods"] == len(there)


async def _trouble(world: World, monitor: Monitor) -> None:
    """Stop slurmrestd, and forbid the scheduler to write the status of pods."""
    await world.cluster.stop("slurmrestd")
    await rights.grant(world.kube, without="pods/status")
    await world.create("later")
    expected = ("NoAnswerFromSlurm", "Forbidden", "PodsStuck", "PodsRefused")
    await monitor.fires(*(f"SlurmPodScheduler{name}" for name in expected))


def test_panels_that_only_faults_fill_exist() -> None:
    assert set(ONLY_FAULTS) <= set(queries())
