"""Garbage collection: dependents of a deleted owner are deleted too, or orphaned."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.sandbox.kube.agents import Key
from scheduler.sandbox.kube.controllers.dependents import (
    Dependents,
    Place,
    body_at,
    resource_at,
)
from scheduler.sandbox.kube.deletion import FOREGROUND, ORPHAN, DeleteOptions
from scheduler.sandbox.kube.meta import is_leaving, owner_uids
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import STORED, Body
from scheduler.sandbox.kube.store import Change

_SERVED = {(f"{it.group}/{it.version}".strip("/"), it.kind) for it in STORED}
BACKGROUND = DeleteOptions(propagation="Background")


class GarbageCollector:
    """Follows owner references."""

    def __init__(self, model: KubeModel, dependents: Dependents) -> None:
        self._model = model
        self._dependents = dependents

    def concerns(self, storage: str, change: Change) -> Iterable[Key]:
        """Yield the keys of a changed object that has owners or is being deleted. For a removed
        object, yield the keys of its dependents and of its owners (by uid).
        """
        stored = change.after or change.before
        if stored is None:
            return
        metadata = stored.body["metadata"]
        if change.after is None:
            for place in self._dependents.places(metadata["uid"]):
                yield _key(place)
            for owner in metadata.get("ownerReferences") or ():
                yield ("uid", change.key[0], owner["uid"])
        elif "ownerReferences" in metadata or is_leaving(stored.body):
            yield (storage, *change.key)

    def reconcile(self, key: Key) -> float | None:
        """Delete an object whose owners are all gone. For an object that is being deleted, delete
        or orphan its dependents, as its finalizer says.
        """
        by_uid = key[0] == "uid"
        place = self._dependents.place_of(key[2]) if by_uid else (key[0], (key[1], key[2]))
        body = None if place is None else body_at(self._model, place)
        if place is None or body is None:
            return None
        finalizers = body["metadata"].get("finalizers") or ()
        if is_leaving(body) and ORPHAN in finalizers:
            self._orphan(place, body)
        elif is_leaving(body) and FOREGROUND in finalizers:
            self._foreground(place, body)
        elif not is_leaving(body):
            self._collect(place, body)
        return None

    def _collect(self, place: Place, body: Body) -> None:
        owners = body["metadata"].get("ownerReferences") or ()
        gone = not any(uid in self._dependents for uid in owner_uids(body))
        if owners and gone and all(map(_is_served, owners)):
            self._delete(place)

    def _foreground(self, place: Place, body: Body) -> None:
        dependents = self._dependents.places(body["metadata"]["uid"])
        for dependent in dependents:
            found = body_at(self._model, dependent)
            if found is not None and not is_leaving(found):
                self._delete(dependent)
        if not self._dependents.places(body["metadata"]["uid"]):
            self._release(place, body, FOREGROUND)

    def _orphan(self, place: Place, body: Body) -> None:
        uid = body["metadata"]["uid"]
        for dependent in self._dependents.places(uid):
            found = body_at(self._model, dependent)
            if found is not None:
                resource = resource_at(dependent)
                self._model.modify(resource, found, _without_owner(uid), subresource="")
        self._release(place, body, ORPHAN)

    def _release(self, place: Place, body: Body, finalizer: str) -> None:
        def without(present: Body) -> Body:
            metadata = present["metadata"]
            kept = [name for name in metadata.get("finalizers") or () if name != finalizer]
            return {**present, "metadata": {**metadata, "finalizers": kept}}

        self._model.modify(resource_at(place), body, without, subresource="")

    def _delete(self, place: Place) -> None:
        namespace, name = place[1]
        self._model.delete(resource_at(place), namespace, name, BACKGROUND)


def _is_served(owner: Body) -> bool:
    """Whether there are such objects at all. The real controller cannot look for others, and so
    keeps their dependents.
    """
    return (owner["apiVersion"], owner["kind"]) in _SERVED


def _key(place: Place) -> Key:
    return (place[0], *place[1])


def _without_owner(uid: str) -> Callable[[Body], Body]:
    def change(body: Body) -> Body:
        metadata = body["metadata"]
        owners = [each for each in metadata.get("ownerReferences") or () if each["uid"] != uid]
        return {**body, "metadata": {**metadata, "ownerReferences": owners}}

    return change
