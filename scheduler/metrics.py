"""All Prometheus metrics of the scheduler; labels come from closed sets only."""

from __future__ import annotations

import platform
import sys

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)

import scheduler

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_STAGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400)


class Metrics:
    """One registry and the metrics in it; also the work queue's provider of client-go's metrics."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each counter and histogram, of no use
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        info = Info("slurm_scheduler_build", "What is running", registry=registry)
        info.info(
            {
                "version": scheduler.__version__,
                "python": platform.python_version(),
                "implementation": sys.implementation.name,
            }
        )
        self.slurm_requests = Counter(
            "slurm_scheduler_slurm_requests_total",
            "Requests to slurmrestd",
            ["operation", "outcome"],
            registry=registry,
        )
        self.slurm_seconds = Histogram(
            "slurm_scheduler_slurm_request_seconds",
            "Duration of requests to slurmrestd",
            ["operation"],
            buckets=_FAST,
            registry=registry,
        )
        self.kube_requests = Counter(
            "slurm_scheduler_kube_requests_total",
            "Requests to the Kubernetes API server",
            ["operation", "outcome"],
            registry=registry,
        )
        self.kube_seconds = Histogram(
            "slurm_scheduler_kube_request_seconds",
            "Duration of requests to the Kubernetes API server",
            ["operation"],
            buckets=_FAST,
            registry=registry,
        )
        self.stage_seconds = Histogram(
            "slurm_scheduler_stage_seconds",
            "Latency of a unit by stage: submitted (since seen), allocated (since submitted), "
            "bound (since allocated)",
            ["stage"],
            buckets=_STAGES,
            registry=registry,
        )
        self.actions = Counter(
            "slurm_scheduler_actions_total",
            "Actions carried out, by what came of them",
            ["action", "outcome"],
            registry=registry,
        )
        self.evictions = Counter(
            "slurm_scheduler_evictions_total",
            "Pods deleted because Slurm ended their placeholder",
            ["reason"],
            registry=registry,
        )
        self.policy_refusals = Counter(
            "slurm_scheduler_policy_refusals_total",
            "Values that a rule of the policy file did not allow, as told to pods",
            ["rule"],
            registry=registry,
        )
        self.policy_reloads = Counter(
            "slurm_scheduler_policy_reloads_total",
            "New versions of the policy file, by what came of them",
            ["version"],
            registry=registry,
        )
        self.policy_outdated = Gauge(
            "slurm_scheduler_policy_outdated",
            "1 while the newest version of the policy file is not the one in force",
            registry=registry,
        )
        self.root_requests = Counter(
            "slurm_scheduler_root_requests_total",
            "Pods that asked for Slurm user 0 (root) explicitly, without a rule about users",
            registry=registry,
        )
        self.leftovers = Counter(
            "slurm_scheduler_leftover_placeholders_total",
            "Placeholders found that were not recorded: adopted, duplicate or orphan",
            ["kind"],
            registry=registry,
        )
        self.hook_seconds = Histogram(
            "slurm_scheduler_hook_seconds",
            "How long Slurm's hooks waited for an answer: guard (of the next job), gone (of a "
            "placeholder's script)",
            ["hook", "answer"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=registry,
        )
        self.units = Gauge(
            "slurm_scheduler_units",
            "Units by state of their placeholder",
            ["state"],
            registry=registry,
        )
        self.tick_seconds = Gauge(
            "slurm_scheduler_pulse_interval_seconds",
            "Present interval between looks at job states",
            registry=registry,
        )
        self.loop_stalls = Counter(
            "slurm_scheduler_loop_stalls_total",
            "Times the event loop was late by over 50 ms, busy or waiting for a CPU",
            ["cause"],
            registry=registry,
        )
        self.loop_lag = Gauge(
            "slurm_scheduler_loop_lag_max_seconds",
            "Longest delay of the event loop since the start",
            registry=registry,
        )
        self.kill_wait = Gauge(
            "slurm_scheduler_kill_wait_seconds",
            "KillWait as --slurm-kill-wait says (setting) and as Slurm says (slurm), which counts",
            ["source"],
            registry=registry,
        )
        self.kill_wait_mismatch = Gauge(
            "slurm_scheduler_kill_wait_mismatch",
            "1 when Slurm's KillWait is not what --slurm-kill-wait says",
            registry=registry,
        )
        self.ready = Gauge("slurm_scheduler_ready", "1 when /readyz says so", registry=registry)
        self.node_checks = Gauge(
            "slurm_scheduler_node_checks",
            "1 when Nodes are read, so that each is checked before a pod is bound to it",
            registry=registry,
        )
        self._queue_depth = Gauge(
            "slurm_scheduler_workqueue_depth", "Keys waiting", registry=registry
        )
        self._queue_adds = Counter(
            "slurm_scheduler_workqueue_adds_total", "Keys added", registry=registry
        )
        self._queue_latency = Histogram(
            "slurm_scheduler_workqueue_queue_duration_seconds",
            "Time a key waits for a worker",
            buckets=_FAST,
            registry=registry,
        )
        self._queue_work = Histogram(
            "slurm_scheduler_workqueue_work_duration_seconds",
            "Time a worker spends on a key",
            buckets=_FAST,
            registry=registry,
        )
        self._queue_retries = Counter(
            "slurm_scheduler_workqueue_retries_total", "Keys added with a delay", registry=registry
        )

    def kube_call(self, operation: str, outcome: str, seconds: float) -> None:
        """Observe one request to the API server."""
        self.kube_requests.labels(operation, outcome).inc()
        self.kube_seconds.labels(operation).observe(seconds)

    def slurm_call(self, operation: str, outcome: str, seconds: float) -> None:
        """Observe one request to slurmrestd."""
        self.slurm_requests.labels(operation, outcome).inc()
        self.slurm_seconds.labels(operation).observe(seconds)

    def depth(self, keys: int, /) -> None:
        """The number of keys that wait for a worker."""
        self._queue_depth.set(keys)

    def added(self) -> None:
        """A key was added."""
        self._queue_adds.inc()

    def waited(self, seconds: float, /) -> None:
        """A key was handed to a worker."""
        self._queue_latency.observe(seconds)

    def worked(self, seconds: float, /) -> None:
        """A key was done."""
        self._queue_work.observe(seconds)

    def retried(self) -> None:
        """A key was added with a delay."""
        self._queue_retries.inc()
