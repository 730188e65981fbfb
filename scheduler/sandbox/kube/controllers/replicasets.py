"""ReplicaSets: each has as many pods as its spec says."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.controllers.dependents import Dependents, controller_key
from scheduler.sandbox.kube.controllers.templates import pod_of
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.meta import is_finished, is_leaving, is_ready
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import PODS, REPLICA_SETS, Body
from scheduler.sandbox.kube.store import Change


class ReplicaSetController:
    """Creates and deletes pods."""

    def __init__(self, model: KubeModel, dependents: Dependents) -> None:
        self._model = model
        self._dependents = dependents

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the key of a changed ReplicaSet, or of a changed pod's ReplicaSet."""
        if storage == REPLICA_SETS.storage:
            yield change.key
        elif storage == PODS.storage and (key := controller_key(change, "ReplicaSet")):
            yield key

    def reconcile(self, key: Key) -> float | None:
        """Create or delete pods until their number is right, and write the status."""
        found = self._model.find(REPLICA_SETS, key[0], key[1])
        if found is None:
            return None
        if not is_leaving(found):
            self._level(found)
        pods = self._active(found)
        self._model.modify(REPLICA_SETS, found, lambda body: _counted(body, pods))
        return None

    def _active(self, owner: Body) -> list[Body]:
        return [
            pod
            for pod in self._dependents.controlled(owner, PODS)
            if not is_finished(pod) and not is_leaving(pod)
        ]

    def _level(self, owner: Body) -> None:
        pods = self._active(owner)
        namespace = owner["metadata"]["namespace"]
        missing = owner["spec"]["replicas"] - len(pods)
        for _ in range(missing):
            self._model.create(PODS, namespace, pod_of(owner))
        for pod in sorted(pods, key=_worth)[: max(0, -missing)]:
            self._model.delete(PODS, namespace, pod["metadata"]["name"], DeleteOptions())


def _worth(pod: Body) -> tuple[bool, bool, int]:
    """The sort key for deletion: first pods without a Node, then unready pods, then the newest."""
    version = -int(pod["metadata"]["resourceVersion"])
    return bool(pod["spec"].get("nodeName")), is_ready(pod), version


def _counted(body: Body, pods: list[Body]) -> Body:
    ready = sum(is_ready(pod) for pod in pods)
    status = {
        "replicas": len(pods),
        "fullyLabeledReplicas": len(pods),
        "observedGeneration": body["metadata"]["generation"],
    }
    if ready:
        status |= {"readyReplicas": ready, "availableReplicas": ready}
    return {**body, "status": status}
