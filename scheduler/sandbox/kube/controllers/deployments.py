"""Deployments: one ReplicaSet for each template, and rollouts from the old ones to the new one."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec

from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.budgets import share
from scheduler.sandbox.kube.controllers.dependents import Dependents, controller_key
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.meta import (
    SUFFIX_LETTERS,
    controller_reference,
    is_leaving,
    with_condition,
)
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.patches import MERGE_PATCH
from scheduler.sandbox.kube.resources import DEPLOYMENTS, REPLICA_SETS, Body
from scheduler.sandbox.kube.store import Change

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HASH_LENGTH = 10


class DeploymentController:
    """Rolls out templates."""

    def __init__(self, model: KubeModel, dependents: Dependents) -> None:
        self._model = model
        self._dependents = dependents

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the key of a changed Deployment, or of a changed ReplicaSet's Deployment."""
        if storage == DEPLOYMENTS.storage:
            yield change.key
        elif storage == REPLICA_SETS.storage and (key := controller_key(change, "Deployment")):
            yield key

    def reconcile(self, key: Key) -> float | None:
        """Take one step of the rollout. The changes that it makes lead to the next step."""
        found = self._model.find(DEPLOYMENTS, key[0], key[1])
        if found is None:
            return None
        if not is_leaving(found) and not found["spec"].get("paused"):
            self._roll(found)
        sets = self._sets(found)
        self._model.modify(DEPLOYMENTS, found, lambda body: _counted(body, sets))
        return None

    def _sets(self, owner: Body) -> list[Body]:
        return list(self._dependents.controlled(owner, REPLICA_SETS))

    def _roll(self, owner: Body) -> None:
        wanted = template_hash(owner)
        new = next((each for each in self._sets(owner) if _hash(each) == wanted), None)
        if new is None:
            new = self._create(owner, wanted)
        old = [each for each in self._sets(owner) if _hash(each) != wanted]
        if owner["spec"]["strategy"]["type"] == "Recreate":
            self._recreate(owner, new, old)
        else:
            self._rolling(owner, new, old)
        self._forget_old(owner, old)

    def _create(self, owner: Body, wanted: str) -> Body:
        metadata, spec = owner["metadata"], owner["spec"]
        revision = 1 + max((_revision(each) for each in self._sets(owner)), default=0)
        template = spec["template"]
        given = template.get("metadata") or {}
        labels = {**(given.get("labels") or {}), HASH_LABEL: wanted}
        selector = spec["selector"]
        match = {**(selector.get("matchLabels") or {}), HASH_LABEL: wanted}
        body = {
            "kind": "ReplicaSet",
            "apiVersion": "apps/v1",
            "metadata": {
                "name": f"{metadata['name']}-{wanted}",
                "labels": labels,
                "annotations": {REVISION: str(revision)},
                "ownerReferences": [controller_reference(owner)],
            },
            "spec": {
                "replicas": 0,
                "selector": {**selector, "matchLabels": match},
                "template": {**template, "metadata": {**given, "labels": labels}},
            },
        }
        note = {"metadata": {"annotations": {REVISION: str(revision)}}}
        where = (metadata["namespace"], metadata["name"])
        self._model.patch(DEPLOYMENTS, *where, note, content_type=MERGE_PATCH)
        return self._model.create(REPLICA_SETS, metadata["namespace"], body).body

    def _recreate(self, owner: Body, new: Body, old: list[Body]) -> None:
        for each in old:
            self._scale(each, 0)
        if not any(each["status"].get("replicas") for each in old):
            self._scale(new, owner["spec"]["replicas"])

    def _rolling(self, owner: Body, new: Body, old: list[Body]) -> None:
        replicas = owner["spec"]["replicas"]
        surge, unavailable = _bounds(owner["spec"], replicas)
        others = sum(each["spec"]["replicas"] for each in old)
        target = min(replicas, max(new["spec"]["replicas"], replicas + surge - others))
        self._scale(new, target)
        spare = _available(new) + others - (replicas - unavailable)
        for each in sorted(old, key=_available):
            unhealthy = each["spec"]["replicas"] - _available(each)
            cut = min(each["spec"]["replicas"], max(0, unhealthy + spare - _unhealthy(old)))
            spare -= cut - min(cut, unhealthy)
            self._scale(each, each["spec"]["replicas"] - cut)

    def _scale(self, owned: Body, replicas: int) -> None:
        def change(body: Body) -> Body:
            return {**body, "spec": {**body["spec"], "replicas": replicas}}

        self._model.modify(REPLICA_SETS, owned, change, subresource="")

    def _forget_old(self, owner: Body, old: list[Body]) -> None:
        idle = [e for e in old if not e["spec"]["replicas"] and not e["status"].get("replicas")]
        idle.sort(key=_revision)
        for each in idle[: max(0, len(idle) - owner["spec"]["revisionHistoryLimit"])]:
            metadata = each["metadata"]
            options = DeleteOptions(propagation="Background")
            self._model.delete(REPLICA_SETS, metadata["namespace"], metadata["name"], options)


def template_hash(owner: Body) -> str:
    """A short hash of the Deployment's pod template."""
    number = int.from_bytes(sha256(msgspec.json.encode(owner["spec"]["template"])).digest()[:8])
    letters = []
    for _ in range(HASH_LENGTH):
        number, index = divmod(number, len(SUFFIX_LETTERS))
        letters.append(SUFFIX_LETTERS[index])
    return "".join(letters)


def _hash(owned: Body) -> str | None:
    label = (owned["metadata"].get("labels") or {}).get(HASH_LABEL)
    return None if label is None else str(label)


def _revision(owned: Body) -> int:
    return int((owned["metadata"].get("annotations") or {}).get(REVISION, 0))


def _available(owned: Body) -> int:
    return int(owned["status"].get("availableReplicas", 0))


def _unhealthy(sets: list[Body]) -> int:
    return sum(each["spec"]["replicas"] - _available(each) for each in sets)


def _bounds(spec: Body, replicas: int) -> tuple[int, int]:
    """How many pods a rollout may have above `replicas`, and how many available ones below it."""
    rolling = spec["strategy"]["rollingUpdate"]
    surge = share(rolling["maxSurge"], replicas, round_up=True)
    unavailable = share(rolling["maxUnavailable"], replicas, round_up=False)
    return surge, unavailable if surge or unavailable else 1


def _counted(body: Body, sets: list[Body]) -> Body:
    wanted = template_hash(body)
    replicas = sum(each["status"].get("replicas", 0) for each in sets)
    ready = sum(each["status"].get("readyReplicas", 0) for each in sets)
    updated = sum(e["status"].get("replicas", 0) for e in sets if _hash(e) == wanted)
    counts = {
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, body["spec"]["replicas"] - ready),
    }
    status: Body = {"observedGeneration": body["metadata"]["generation"]}
    status |= {name: count for name, count in counts.items() if count}
    complete = updated == replicas == ready == body["spec"]["replicas"]
    status["conditions"] = _conditions(body, ready=ready, complete=complete)
    return {**body, "status": status}


def _conditions(body: Body, *, ready: int, complete: bool) -> list[Body]:
    replicas = body["spec"]["replicas"]
    strategy = body["spec"]["strategy"]
    unavailable = _bounds(body["spec"], replicas)[1] if strategy["type"] != "Recreate" else 0
    enough = ready >= replicas - unavailable
    available = {
        "type": "Available",
        "status": "True" if enough else "False",
        "reason": "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
    }
    progressing = {
        "type": "Progressing",
        "status": "True",
        "reason": "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
    }
    present = body["status"].get("conditions")
    return with_condition(with_condition(present, available), progressing)
