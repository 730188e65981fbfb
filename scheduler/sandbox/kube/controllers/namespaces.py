"""Namespaces: a new one gets its service account, and a deleted one is emptied and then removed."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.meta import is_leaving
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import NAMESPACES, SERVICE_ACCOUNTS, STORED, Body
from scheduler.sandbox.kube.store import Change

DEFAULT_ACCOUNT = "default"
BACKGROUND = DeleteOptions(propagation="Background")


class NamespaceController:
    """Sets up new namespaces, and empties those that are being deleted."""

    def __init__(self, model: KubeModel) -> None:
        self._model = model

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the name of a changed namespace, or of a namespace that has lost an object."""
        if storage == NAMESPACES.storage:
            yield (change.key[1],)
        elif change.after is None and change.key[0]:
            yield (change.key[0],)

    def reconcile(self, key: Key) -> float | None:
        """Create the service account if it is missing. If the namespace is being deleted, delete
        its objects, and remove it once it is empty.
        """
        namespace = self._model.find(NAMESPACES, "", key[0])
        if namespace is None:
            return None
        if is_leaving(namespace):
            self._empty(namespace, key[0])
        elif self._model.find(SERVICE_ACCOUNTS, key[0], DEFAULT_ACCOUNT) is None:
            account = {"metadata": {"name": DEFAULT_ACCOUNT}}
            self._model.create(SERVICE_ACCOUNTS, key[0], account)
        return None

    def _empty(self, namespace: Body, name: str) -> None:
        left = False
        for resource in STORED:
            if not resource.namespaced:
                continue
            for body in self._model.bodies(resource, name):
                if not is_leaving(body):
                    self._model.delete(resource, name, body["metadata"]["name"], BACKGROUND)
            left = left or any(True for _ in self._model.bodies(resource, name))
        if not left:
            self._model.modify(NAMESPACES, namespace, _released, subresource="")


def _released(body: Body) -> Body:
    return {**body, "spec": {**body["spec"], "finalizers": []}}
