"""Namespaces: one that is being deleted is emptied, and then goes."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.meta import is_leaving
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import NAMESPACES, STORED, Body
from scheduler.sandbox.kube.store import Change

BACKGROUND = DeleteOptions(propagation="Background")


class NamespaceController:
    """Finishes the deletion of namespaces."""

    def __init__(self, model: KubeModel) -> None:
        self._model = model

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """A namespace that is leaving, at first and whenever one of its objects has gone."""
        if storage == NAMESPACES.storage:
            if change.after is not None and is_leaving(change.after.body):
                yield (change.key[1],)
        elif change.after is None and change.key[0]:
            yield (change.key[0],)

    def reconcile(self, key: Key) -> float | None:
        """Delete what is left; let the namespace go when nothing is."""
        namespace = self._model.find(NAMESPACES, "", key[0])
        if namespace is None or not is_leaving(namespace):
            return None
        left = False
        for resource in STORED:
            if not resource.namespaced:
                continue
            for body in self._model.bodies(resource, key[0]):
                if not is_leaving(body):
                    self._model.delete(resource, key[0], body["metadata"]["name"], BACKGROUND)
            left = left or any(True for _ in self._model.bodies(resource, key[0]))
        if not left:
            self._model.modify(NAMESPACES, namespace, _released, subresource="")
        return None


def _released(body: Body) -> Body:
    return {**body, "spec": {**body["spec"], "finalizers": []}}
