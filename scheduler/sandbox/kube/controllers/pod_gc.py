"""Pod garbage collection: pods bound to a Node that does not exist are removed after a while."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.meta import is_finished, monotonic, with_condition
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import NODES, PODS, Body
from scheduler.sandbox.kube.store import Change

QUARANTINE_SECONDS = 40.0  # as in kube-controller-manager


class PodGarbageCollector:
    """Removes pods whose Node is gone. If the Node comes back in time, they stay."""

    def __init__(self, model: KubeModel) -> None:
        self._model = model
        self._missing_since: dict[str, float] = {}

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the name of a changed Node, or of a missing Node that a changed pod is bound to."""
        if storage == NODES.storage:
            yield (change.key[1],)
        elif storage == PODS.storage and change.after is not None:
            node = change.after.body["spec"].get("nodeName")
            if node and self._model.find(NODES, "", node) is None:
                yield (node,)

    def reconcile(self, key: Key) -> float | None:
        """Remove the Node's pods once it has been missing for QUARANTINE_SECONDS. Returns the
        seconds that are left until then.
        """
        node = key[0]
        if self._model.find(NODES, "", node) is not None:
            self._missing_since.pop(node, None)
            return None
        since = self._missing_since.setdefault(node, monotonic())
        if (left := since + QUARANTINE_SECONDS - monotonic()) > 0:
            return left
        for pod in self._model.bodies(PODS):
            if pod["spec"].get("nodeName") == node:
                self._remove(pod)
        return None

    def _remove(self, pod: Body) -> None:
        metadata = pod["metadata"]
        if not is_finished(pod):
            self._model.modify(PODS, pod, _orphaned)
        options = DeleteOptions(grace_seconds=0, uid=metadata["uid"])
        self._model.delete(PODS, metadata["namespace"], metadata["name"], options)


def _orphaned(pod: Body) -> Body:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByPodGC",
        "message": "PodGC: node no longer exists",
    }
    status = pod["status"]
    conditions = with_condition(status.get("conditions"), condition)
    return {**pod, "status": {**status, "phase": "Failed", "conditions": conditions}}
