"""An index of objects by the uids of their owners."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.sandbox.kube.meta import controller_of, owner_uids
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import BY_STORAGE, Body, Resource
from scheduler.sandbox.kube.store import Change, Key, Store

Place = tuple[str, Key]


class Dependents:
    """The index. It observes the store, so it is always up to date."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._of: dict[str, dict[Place, None]] = {}
        self._places: dict[str, Place] = {}
        store.observe(self._observe)

    def __contains__(self, uid: str) -> bool:
        """Whether an object has that uid."""
        return uid in self._places

    def place_of(self, uid: str) -> Place | None:
        """The place of the object with that uid; None if there is none."""
        return self._places.get(uid)

    def places(self, uid: str) -> list[Place]:
        """The places of the objects that have this uid as an owner."""
        return list(self._of.get(uid, ()))

    def controlled(self, owner: Body, resource: Resource) -> Iterator[Body]:
        """The objects of that resource whose controller is this owner."""
        uid = owner["metadata"]["uid"]
        for storage, key in self.places(uid):
            if storage == resource.storage:
                body = self._store[storage].objects[key].body
                controller = controller_of(body)
                if controller is not None and controller["uid"] == uid:
                    yield body

    def _observe(self, storage: str, change: Change) -> None:
        place = (storage, change.key)
        if change.before is not None:
            for uid in owner_uids(change.before.body):
                owned = self._of.get(uid, {})
                owned.pop(place, None)
                if not owned:
                    self._of.pop(uid, None)
            if change.after is None:
                self._places.pop(change.before.body["metadata"]["uid"], None)
        if change.after is not None:
            self._places[change.after.body["metadata"]["uid"]] = place
            for uid in owner_uids(change.after.body):
                self._of.setdefault(uid, {})[place] = None


def resource_at(place: Place) -> Resource:
    """The resource of the object at that place."""
    return BY_STORAGE[place[0]]


def body_at(model: KubeModel, place: Place) -> Body | None:
    """The object at that place; None if there is none any more."""
    stored = model.store.get(*place)
    return None if stored is None else stored.body


def controller_key(change: Change, kind: str) -> tuple[str, str] | None:
    """Namespace and name of a changed object's controller; None if it has none of that kind."""
    stored = change.after or change.before
    if stored is None:
        return None
    controller = controller_of(stored.body)
    if controller is None or controller["kind"] != kind:
        return None
    return change.key[0], controller["name"]
