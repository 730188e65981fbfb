"""All Prometheus metrics of the scheduler.

Labels come from closed sets. The one exception are namespaces: only the largest ones have series of
their own. Ages are exported as timestamps, and a query subtracts them from time().

`make docs` rewrites the tables in docs/metrics.md; the values of a new label go into LABELS of
docs/_make/pages.py.
"""

from __future__ import annotations

import platform
import sys
from functools import cache, partial
from typing import Any, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Info,
    ProcessCollector,
    Summary,
    disable_created_metrics,
)

import scheduler
from scheduler.core.event_reasons import MEANINGS
from scheduler.observe.place_series import PlaceSummary

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_STAGE_NAMES: Final = ("submitted", "allocated", "bound", "started")
_SHORT_WATCH_SECONDS: Final = 1.0  # client-go's definition of a short watch
_STAGES = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400)


class Metrics:
    """One registry and the metrics in it. The work queue and the reflectors report to it too, for
    the metrics that client-go has about them.
    """

    def __init__(self) -> None:
        # One more series for each counter and histogram, of no use.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        self.build = Info("slurm_pod_scheduler_build", "What is running", registry=registry)
        self.build.info(
            {
                "version": scheduler.__version__,
                "python": platform.python_version(),
                "implementation": sys.implementation.name,
            }
        )
        self.slurm_requests = Counter(
            "slurm_pod_scheduler_slurm_requests_total",
            "Requests to slurmrestd",
            ["operation", "outcome"],
            registry=registry,
        )
        self.slurm_seconds = Histogram(
            "slurm_pod_scheduler_slurm_request_seconds",
            "Duration of requests to slurmrestd",
            ["operation"],
            buckets=_FAST,
            registry=registry,
        )
        self.kube_requests = Counter(
            "slurm_pod_scheduler_kube_requests_total",
            "Requests to the Kubernetes API server",
            ["operation", "outcome"],
            registry=registry,
        )
        self.kube_seconds = Histogram(
            "slurm_pod_scheduler_kube_request_seconds",
            "Duration of requests to the Kubernetes API server",
            ["operation"],
            buckets=_FAST,
            registry=registry,
        )
        # Each request is observed, and the search for its two series takes longer than that.
        self._slurm_series = cache(partial(_series, self.slurm_requests, self.slurm_seconds))
        self._kube_series = cache(partial(_series, self.kube_requests, self.kube_seconds))
        self.stage_seconds = Histogram(
            "slurm_pod_scheduler_stage_seconds",
            "Time that a pod or a gang takes, by stage: submitted (since seen), allocated (since "
            "submitted), bound (since allocated), started (since bound, by the pod's phase)",
            ["stage"],
            buckets=_STAGES,
            registry=registry,
        )
        # Each pod is observed, and the search for a series takes longer than that.
        self.stages = {it: self.stage_seconds.labels(it) for it in _STAGE_NAMES}
        self.actions = Counter(
            "slurm_pod_scheduler_actions_total",
            "Actions that were carried out, by outcome",
            ["action", "outcome"],
            registry=registry,
        )
        # Two are counted for each pod, and the search for a series takes longer than that.
        self.actions_by = cache(self.actions.labels)
        self.evictions = Counter(
            "slurm_pod_scheduler_evictions_total",
            "Pods deleted because Slurm ended their placeholder",
            ["reason"],
            registry=registry,
        )
        self.early_ends = Counter(
            "slurm_pod_scheduler_early_ends_total",
            "Pods of a controller that failed or were ended within a minute after their job was "
            "submitted or after they were bound; the pods that replace them have to wait",
            registry=registry,
        )
        self.brake_held = Gauge(
            "slurm_pod_scheduler_brake_held_pods",
            "Pods that the brake holds until a later look at Slurm confirms their end; a gang"
            " counts as one",
            registry=registry,
        )
        self.brake_engaged = Counter(
            "slurm_pod_scheduler_brake_engaged_total",
            "Times the brake began to hold pods, because Slurm would have ended too many of them",
            ["pods"],
            registry=registry,
        )
        self.policy_refusals = Counter(
            "slurm_pod_scheduler_policy_refusals_total",
            "Values that a rule of the policy file did not allow, as shown on pods",
            ["rule"],
            registry=registry,
        )
        self.policy_reloads = Counter(
            "slurm_pod_scheduler_policy_reloads_total",
            "New versions of the policy file, by outcome",
            ["version"],
            registry=registry,
        )
        self.policy_outdated = Gauge(
            "slurm_pod_scheduler_policy_outdated",
            "1 while the newest version of the policy file is not the one in force",
            registry=registry,
        )
        self.root_requests = Counter(
            "slurm_pod_scheduler_root_requests_total",
            "Pods that asked for Slurm user 0 (root) explicitly, without a rule about users",
            registry=registry,
        )
        self.edits_held = Counter(
            "slurm_pod_scheduler_edits_held_total",
            "Edits of waiting pods that had to wait before they reach Slurm, by the budget "
            "that was used up: pod, namespace, all, or policy (changes by a new policy)",
            ["scope"],
            registry=registry,
        )
        self.submits_held = Counter(
            "slurm_pod_scheduler_submits_held_total",
            "Times a pod's submit had to wait, because its namespace asks for too many jobs",
            registry=registry,
        )
        self.events_dropped = Counter(
            "slurm_pod_scheduler_events_dropped_total",
            "Events that were not written",
            ["why"],
            registry=registry,
        )
        self.resized_beyond_job = Counter(
            "slurm_pod_scheduler_resized_beyond_job_total",
            "Pods on a Node that were resized to more than their Slurm job holds",
            registry=registry,
        )
        self.leftovers = Counter(
            "slurm_pod_scheduler_leftover_placeholders_total",
            "Placeholders that were found without being recorded: adopted, duplicate or orphan",
            ["kind"],
            registry=registry,
        )
        self.hook_seconds = Histogram(
            "slurm_pod_scheduler_hook_seconds",
            "How long Slurm's hooks waited for an answer: guard (asked by the next job), gone"
            " (asked by a placeholder's script)",
            ["hook", "answer"],
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
            registry=registry,
        )
        self.hook_waits = Gauge(
            "slurm_pod_scheduler_hook_waits",
            "Hooks of Slurm that are waiting for an answer",
            ["hook"],
            registry=registry,
        )
        self.unguarded_nodes = Gauge(
            "slurm_pod_scheduler_unguarded_nodes",
            "Slurm nodes with a slurmd that external jobs may get although no handover guard is "
            "known to be installed",
            registry=registry,
        )
        self.placeholders_without_pod = Gauge(
            "slurm_pod_scheduler_placeholders_without_pod",
            "Placeholders that may still run 5 s after their pod was gone or finished",
            registry=registry,
        )
        self.running_looks_needed = Gauge(
            "slurm_pod_scheduler_running_looks_needed_per_second",
            "Looks at jobs of running pods that are needed to see each warning before a preemption "
            "within a quarter of its GraceTime; --running-looks-per-second limits them",
            registry=registry,
        )
        self.slurm_answered = Gauge(
            "slurm_pod_scheduler_slurm_last_answer_timestamp_seconds",
            "When Slurm's controller last answered; before the first answer, when the process"
            " started",
            registry=registry,
        )
        self.trouble = Gauge(
            "slurm_pod_scheduler_trouble",
            "1 while a server (slurm, kubernetes) cannot be used for this cause",
            ["server", "cause"],
            registry=registry,
        )
        self.watch_heard = Gauge(
            "slurm_pod_scheduler_kube_watch_last_event_timestamp_seconds",
            "When a watch last received anything, which happens at least once a minute; "
            "before the first time, when the process started",
            ["resource"],
            registry=registry,
        )
        self.token_issued = Gauge(
            "slurm_pod_scheduler_slurm_token_issued_timestamp_seconds",
            "When Slurm's token was issued, as the token says; NaN if it does not say",
            registry=registry,
        )
        self.token_expires = Gauge(
            "slurm_pod_scheduler_slurm_token_expiry_timestamp_seconds",
            "When Slurm's token expires, as the token says; NaN if it does not say",
            registry=registry,
        )
        self._poll_interval = Gauge(
            "slurm_pod_scheduler_slurm_poll_interval_seconds",
            "Present interval between requests for job states",
            registry=registry,
        )
        self.loop_stalls = Counter(
            "slurm_pod_scheduler_loop_stalls_total",
            "Times the event loop was late by over 50 ms, because it was busy or waiting (for"
            " a CPU or a blocking call)",
            ["cause"],
            registry=registry,
        )
        self.loop_lag_max = Gauge(
            "slurm_pod_scheduler_loop_lag_max_seconds",
            "Longest delay of the event loop since the start",
            registry=registry,
        )
        self.loop_lag = Histogram(
            "slurm_pod_scheduler_loop_lag_seconds",
            "Delay of the event loop, measured 50 times a second",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.035, 0.05, 0.1, 0.25, 1),
            registry=registry,
        )
        self.tasks = Gauge(
            "slurm_pod_scheduler_tasks",
            "Tasks of the event loop; growth without more pods is a leak",
            registry=registry,
        )
        self.kill_wait = Gauge(
            "slurm_pod_scheduler_kill_wait_seconds",
            "KillWait as --slurm-kill-wait gives it (setting) and as Slurm reports it (slurm);"
            " Slurm's value is used",
            ["source"],
            registry=registry,
        )
        self.kill_wait_mismatch = Gauge(
            "slurm_pod_scheduler_kill_wait_mismatch",
            "1 when Slurm's KillWait differs from --slurm-kill-wait",
            registry=registry,
        )
        for add in (
            *(self._add_process, self._add_pods, self._add_places, self._add_slurm_nodes),
            *(self._add_former_names, self._add_queue, self._add_reflectors),
        ):
            add(registry)
        self._begin_at_zero()

    def _add_process(self, registry: CollectorRegistry) -> None:
        """What this process may do now."""
        self.ready = Gauge(
            "slurm_pod_scheduler_ready",
            "1 when /readyz says that the process is ready",
            registry=registry,
        )
        self.leader = Gauge(
            "slurm_pod_scheduler_leader",
            "1 while this process leads and may write, 0 while it stands by; without an election "
            "always 1",
            registry=registry,
        )
        self.node_checks = Gauge(
            "slurm_pod_scheduler_node_checks",
            "1 when the scheduler reads Nodes, and so checks each before it binds a pod to it",
            registry=registry,
        )

    def _add_pods(self, registry: CollectorRegistry) -> None:
        """The metrics that say where pods are. Each pod of a gang counts."""
        self.pods = Gauge(
            "slurm_pod_scheduler_pods",
            "Pods by the state of their placeholder and the reason why they wait",
            ["state", "reason"],
            registry=registry,
        )
        self.namespace_pods = Gauge(
            "slurm_pod_scheduler_namespace_pods",
            "Pods by namespace, state and reason; only combinations that exist now",
            ["pod_namespace", "state", "reason"],
            registry=registry,
        )

    def _add_places(self, registry: CollectorRegistry) -> None:
        """The metrics by partition. How many places have a series: `place_series.py`."""
        self.partition_pods = Gauge(
            "slurm_pod_scheduler_partition_pods",
            "Pods by partition, state and reason; only combinations that exist now",
            ["partition", "state", "reason"],
            registry=registry,
        )
        place = ["pod_namespace", "partition"]
        self.gpus = Gauge(
            "slurm_pod_scheduler_gpus",
            "GPUs that pods hold, or wait for; only where there are any",
            [*place, "state"],
            registry=registry,
        )
        self.oldest_waiting_pod = Gauge(
            "slurm_pod_scheduler_oldest_waiting_pod_timestamp_seconds",
            "When the pod that waits for longest was created; only where pods wait",
            place,
            registry=registry,
        )
        waits = Summary(
            "slurm_pod_scheduler_queue_wait_seconds",
            "How long the jobs of bound pods waited in Slurm's queue; each pod of a gang counts",
            place,
            registry=registry,
        )
        self.queue_wait = waits
        self.queue_waits = PlaceSummary(waits)

    def _add_slurm_nodes(self, registry: CollectorRegistry) -> None:
        """The metrics of Slurm's nodes. Each process shows them, also one that stands by."""
        of_state: dict[str, Any] = {"labelnames": ["state"], "registry": registry}
        self.slurm_nodes = Gauge(
            "slurm_pod_scheduler_slurm_nodes", "Slurm's nodes by state", **of_state
        )
        self.slurm_node_cpus = Gauge(
            "slurm_pod_scheduler_slurm_node_cpus",
            "CPUs for jobs that Slurm's nodes have, by the state of the node",
            **of_state,
        )
        self.slurm_node_gpus = Gauge(
            "slurm_pod_scheduler_slurm_node_gpus",
            "GPUs that Slurm's nodes have, by the state of the node",
            **of_state,
        )
        self.page_streams = Gauge(
            "slurm_pod_scheduler_page_streams",
            "Windows of the live page that are open now",
            registry=registry,
        )

    def _add_former_names(self, registry: CollectorRegistry) -> None:
        """What the release after 0.1 leaves out."""
        self.units = Gauge(
            "slurm_pod_scheduler_units",
            "Deprecated: use slurm_pod_scheduler_pods. Pods, but a gang counts as one",
            ["state", "reason"],
            registry=registry,
        )
        self.namespace_units = Gauge(
            "slurm_pod_scheduler_namespace_units",
            "Deprecated: use slurm_pod_scheduler_namespace_pods. Pods, but a gang counts as one",
            ["pod_namespace", "state", "reason"],
            registry=registry,
        )
        self._pulse_interval = Gauge(
            "slurm_pod_scheduler_pulse_interval_seconds",
            "Deprecated: use slurm_pod_scheduler_slurm_poll_interval_seconds",
            registry=registry,
        )

    def _add_queue(self, registry: CollectorRegistry) -> None:
        """The metrics of the work queue, named as client-go names them."""
        self.queue_depth = Gauge(
            "slurm_pod_scheduler_workqueue_depth",
            "Pods and gangs that wait to be looked at",
            registry=registry,
        )
        self._queue_adds = Counter(
            "slurm_pod_scheduler_workqueue_adds_total",
            "Times that a pod or a gang was added to the work queue",
            registry=registry,
        )
        self._queue_latency = Histogram(
            "slurm_pod_scheduler_workqueue_queue_duration_seconds",
            "Time that a pod or a gang waits for a worker",
            buckets=_FAST,
            registry=registry,
        )
        self._queue_work = Histogram(
            "slurm_pod_scheduler_workqueue_work_duration_seconds",
            "Time that a worker spends on a pod or a gang",
            buckets=_FAST,
            registry=registry,
        )
        self._queue_retries = Counter(
            "slurm_pod_scheduler_workqueue_retries_total",
            "Times that a pod or a gang was scheduled for a later look",
            registry=registry,
        )
        self.queue_unfinished = Gauge(
            "slurm_pod_scheduler_workqueue_unfinished_work_seconds",
            "Time that all workers have spent on what they work on now; steady "
            "growth shows workers that are stuck",
            registry=registry,
        )
        self.queue_longest = Gauge(
            "slurm_pod_scheduler_workqueue_longest_running_processor_seconds",
            "Time that the slowest worker has spent on what it works on now",
            registry=registry,
        )

    def _add_reflectors(self, registry: CollectorRegistry) -> None:
        """The metrics of the watches of Kubernetes, named as client-go names them. Several watches
        of one resource are counted together.
        """
        prefix, by = "slurm_pod_scheduler_reflector_", ["resource"]
        self._lists = Counter(f"{prefix}lists_total", "Lists begun", by, registry=registry)
        self._list_seconds = Summary(
            f"{prefix}list_duration_seconds",
            "Duration of the lists that succeeded, all pages of each",
            by,
            registry=registry,
        )
        self._list_items = Summary(
            f"{prefix}items_per_list", "Objects in the lists that succeeded", by, registry=registry
        )
        self._watches = Counter(f"{prefix}watches_total", "Watches begun", by, registry=registry)
        self._short_watches = Counter(
            f"{prefix}short_watches_total",
            "Watches that ended within a second without any event",
            by,
            registry=registry,
        )
        self._watch_seconds = Summary(
            f"{prefix}watch_duration_seconds", "Duration of watches", by, registry=registry
        )
        self._watch_items = Summary(
            f"{prefix}items_per_watch", "Events of watches, with bookmarks", by, registry=registry
        )

    def _begin_at_zero(self) -> None:
        """Create the series at 0, so that rates exist from the start and the first increase is
        seen.
        """
        for cause in ("busy", "waiting"):
            self.loop_stalls.labels(cause)
        for pods in ("run", "wait"):
            self.brake_engaged.labels(pods)
        for kind in ("adopted", "duplicate", "orphan"):
            self.leftovers.labels(kind)
        for version in ("taken", "unchanged", "refused"):
            self.policy_reloads.labels(version)
        for answer in ("free", "freed", "busy", "unknown", "refused"):
            self.hook_seconds.labels("guard", answer)
        for hook in ("guard", "gone"):
            self.hook_waits.labels(hook)
        for reason, meaning in MEANINGS.items():
            if meaning.condition == "DisruptionTarget":
                self.evictions.labels(reason)

    def polls_every(self, seconds: float) -> None:
        """The job states are asked for again after this many seconds."""
        self._poll_interval.set(seconds)
        self._pulse_interval.set(seconds)

    def kube_call(self, operation: str, outcome: str, seconds: float) -> None:
        """Observe one request to the API server."""
        requests, durations = self._kube_series(operation, outcome)
        requests.inc()
        durations.observe(seconds)

    def slurm_call(self, operation: str, outcome: str, seconds: float) -> None:
        """Observe one request to slurmrestd."""
        requests, durations = self._slurm_series(operation, outcome)
        requests.inc()
        durations.observe(seconds)

    def added(self) -> None:
        """A key was added."""
        self._queue_adds.inc()

    def waited(self, seconds: float, /) -> None:
        """A key was handed to a worker, after this many seconds in the queue."""
        self._queue_latency.observe(seconds)

    def worked(self, seconds: float, /) -> None:
        """A worker has finished with a key, after this many seconds."""
        self._queue_work.observe(seconds)

    def retried(self) -> None:
        """A key was added with a delay."""
        self._queue_retries.inc()

    def list_began(self, resource: str, /) -> None:
        """A list of that resource was begun."""
        self._lists.labels(resource).inc()

    def list_ended(self, resource: str, /, *, seconds: float, items: int) -> None:
        """A list has succeeded, after this many seconds and with this many items."""
        self._list_seconds.labels(resource).observe(seconds)
        self._list_items.labels(resource).observe(items)

    def watch_began(self, resource: str, /) -> None:
        """A watch of that resource was begun."""
        self._watches.labels(resource).inc()

    def watch_ended(self, resource: str, /, *, seconds: float, events: int) -> None:
        """A watch has ended, for any reason, after this many seconds and this many events."""
        self._watch_seconds.labels(resource).observe(seconds)
        self._watch_items.labels(resource).observe(events)
        if seconds < _SHORT_WATCH_SECONDS and not events:
            self._short_watches.labels(resource).inc()


def _series(
    requests: Counter, durations: Histogram, operation: str, outcome: str
) -> tuple[Counter, Histogram]:
    """The series of one kind of request, by its operation and its outcome."""
    return requests.labels(operation, outcome), durations.labels(operation)
