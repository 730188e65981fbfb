"""Kubelets: they start and end the containers of pods bound to their Nodes, and report on them.

No container really runs. A pod's annotations say how its containers behave:

* `sandbox/run-seconds`: they end by themselves after this time; without it they run until stopped.
* `sandbox/exit-code`: they end by themselves with this exit code.
* `sandbox/stop-seconds`: they take so long to obey SIGTERM.

A value that is not a number counts as absent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.sandbox.kube import nodes, pod_status
from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.meta import is_finished, is_leaving, monotonic
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.nodes import NodeShape
from scheduler.sandbox.kube.resources import LEASES, NODES, PODS, Body
from scheduler.sandbox.kube.store import Change

RUN_SECONDS = "sandbox/run-seconds"
EXIT_CODE = "sandbox/exit-code"
STOP_SECONDS = "sandbox/stop-seconds"

SIGTERM_EXIT = 143
SIGKILL_EXIT = 137
LONGEST_RESTART_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations in seconds. The pause before a restart doubles each time."""

    start_seconds: float = 0.1
    stop_seconds: float = 0.1
    restart_seconds: float = 1.0
    heartbeat_seconds: float = 10.0


@dataclass(slots=True)
class Run:
    """What a kubelet knows about one pod; times are monotonic."""

    uid: str
    start_at: float | None = None
    running: bool = False
    exit_at: float | None = None
    restarts: int = 0
    term_at: float | None = None
    kill_at: float = float("inf")
    grace: int | None = None
    stopped: bool = False


class Kubelets:
    """The kubelets of all Nodes that were added here."""

    def __init__(self, model: KubeModel, *, timing: Timing | None = None) -> None:
        self._model = model
        self._timing = timing or Timing()
        self._nodes: set[str] = set()
        self._runs: dict[Key, Run] = {}

    def add_node(self, shape: NodeShape) -> None:
        """Register a Node that is Ready, with a kubelet. Raises ApiError 409 for a taken name."""
        self._nodes.add(shape.name)
        self._model.create(NODES, "", nodes.node(shape))
        self._model.create(LEASES, nodes.LEASE_NAMESPACE, nodes.lease(shape.name))

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the key of a changed pod on one of these Nodes, or of such a Node."""
        if storage == PODS.storage:
            stored = change.after or change.before
            if stored is not None and stored.body["spec"].get("nodeName") in self._nodes:
                yield ("pod", *change.key)
        elif storage == NODES.storage and change.key[1] in self._nodes:
            yield ("node", change.key[1])

    def reconcile(self, key: Key) -> float | None:
        """Take the next step of one pod, or renew one Node's Lease."""
        if key[0] == "node":
            return self._beat(key[1])
        pod = self._model.find(PODS, key[1], key[2])
        if pod is None:
            self._runs.pop(key, None)
            return None
        if pod["spec"].get("nodeName") not in self._nodes:
            return None
        run = self._runs.get(key)
        if run is None or run.uid != pod["metadata"]["uid"]:
            run = self._runs[key] = Run(pod["metadata"]["uid"])
        if is_leaving(pod):
            return self._stop(pod, run)
        return None if is_finished(pod) else self._advance(pod, run)

    def _beat(self, name: str) -> float | None:
        lease = self._model.find(LEASES, nodes.LEASE_NAMESPACE, name)
        if lease is None or self._model.find(NODES, "", name) is None:
            return None
        self._model.modify(LEASES, lease, nodes.renewed, subresource="")
        return self._timing.heartbeat_seconds

    def _advance(self, pod: Body, run: Run) -> float | None:
        now = monotonic()
        if run.start_at is None:
            run.start_at = now + self._timing.start_seconds
            self._model.modify(PODS, pod, pod_status.creating)
        if now < run.start_at:
            return run.start_at - now
        if not run.running:
            run.running = True
            seconds = _number(pod, RUN_SECONDS)
            run.exit_at = None if seconds is None else now + seconds
            self._model.modify(PODS, pod, lambda body: pod_status.running(body, run.restarts))
        if run.exit_at is None:
            return None
        return self._exit(pod, run) if now >= run.exit_at else run.exit_at - now

    def _exit(self, pod: Body, run: Run) -> float | None:
        code = int(_number(pod, EXIT_CODE) or 0)
        policy = pod["spec"]["restartPolicy"]
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            self._model.modify(PODS, pod, lambda body: pod_status.ended(body, code, run.restarts))
            return None
        pause = min(self._timing.restart_seconds * 2.0**run.restarts, LONGEST_RESTART_SECONDS)
        run.restarts += 1
        run.running, run.start_at = False, monotonic() + pause
        self._model.modify(PODS, pod, lambda body: pod_status.crashed(body, code, run.restarts))
        return pause

    def _stop(self, pod: Body, run: Run) -> float | None:
        now = monotonic()
        if run.stopped:
            return None
        if run.term_at is None:
            stop_seconds = _number(pod, STOP_SECONDS)
            run.term_at = now + (
                self._timing.stop_seconds if stop_seconds is None else stop_seconds
            )
        grace = int(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if grace != run.grace:  # a second deletion may shorten the grace period
            run.grace, run.kill_at = grace, min(run.kill_at, now + grace)
        ends_at = min(run.term_at, run.kill_at)
        if run.running and now < ends_at:
            return ends_at - now
        self._finish(pod, run, SIGTERM_EXIT if run.term_at <= run.kill_at else SIGKILL_EXIT)
        return None

    def _finish(self, pod: Body, run: Run, code: int) -> None:
        run.stopped = True
        if not is_finished(pod):
            self._model.modify(
                PODS, pod, lambda body: pod_status.stopped(body, code, ran=run.running)
            )
        metadata = pod["metadata"]
        self._model.delete(
            PODS,
            metadata["namespace"],
            metadata["name"],
            DeleteOptions(grace_seconds=0, uid=metadata["uid"]),
        )


def _number(pod: Body, annotation: str) -> float | None:
    text = (pod["metadata"].get("annotations") or {}).get(annotation)
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
