"""Deletion: preconditions, grace, propagation and finalizers.

A pod that was never bound or has ended is removed at once. Another bound pod gets a
deletionTimestamp and waits for its kubelet. An object with finalizers waits for their removal.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.sandbox.kube.errors import delete_precondition
from scheduler.sandbox.kube.meta import is_finished, is_leaving, now
from scheduler.sandbox.kube.resources import Body, Resource
from scheduler.sandbox.kube.store import Key, Store, Stored

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DEFAULT_GRACE_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """The options of a deletion; None for an option that was not given."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    propagation: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """The object's latest state, and whether the object was removed."""

    stored: Stored
    finished: bool


def delete(store: Store, resource: Resource, key: Key, options: DeleteOptions) -> Deletion:
    """Delete an existing object, or begin its deletion. Raises ApiError 409 if a precondition does
    not hold.
    """
    old = store[resource.storage].objects[key]
    _check(resource, key[1], old.body["metadata"], options)
    grace = _grace(resource, old.body, options)
    if grace > 0 and is_leaving(old.body) and grace >= _remaining(old.body):
        return Deletion(old, finished=False)
    new = _leaving(resource, old.body, grace=grace, options=options)
    if options.dry_run:
        return Deletion(Stored(new, old.version), finished=False)
    removed = needs_removal(resource, new)
    stored = old
    if new != old.body and (not removed or resource.kind == "Pod"):
        # a pod is marked before its removal, even if that follows at once: watchers see both
        stored = store.put(resource.storage, key, new)
    if removed:
        stored = store.remove(resource.storage, key)
    return Deletion(stored, finished=removed)


def needs_removal(resource: Resource, body: Body) -> bool:
    """Whether the object is being deleted, with no finalizer or grace period left."""
    metadata = body["metadata"]
    if not is_leaving(body) or metadata.get("finalizers"):
        return False
    if resource.kind == "Namespace" and body["spec"].get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")


def _check(resource: Resource, name: str, metadata: Body, options: DeleteOptions) -> None:
    wanted = (("UID", options.uid, "uid"), ("ResourceVersion", options.resource_version, ""))
    for label, value, field in wanted:
        found = metadata[field or "resourceVersion"]
        if value is not None and value != found:
            raise delete_precondition(
                resource.kind, name, label, wanted=value, found=found, group=resource.group
            )


def _grace(resource: Resource, body: Body, options: DeleteOptions) -> int:
    if resource.kind != "Pod":
        return 0
    if not body["spec"].get("nodeName") or is_finished(body):
        return 0
    grace = options.grace_seconds
    if grace is None:
        grace = body["spec"].get("terminationGracePeriodSeconds", DEFAULT_GRACE_SECONDS)
    return 1 if grace < 0 else int(grace)


def _remaining(body: Body) -> int:
    return int(body["metadata"].get("deletionGracePeriodSeconds") or 0)


def _leaving(resource: Resource, body: Body, *, grace: int, options: DeleteOptions) -> Body:
    metadata = dict(body["metadata"])
    if "deletionTimestamp" not in metadata or grace < _remaining(body):
        if resource.tracks_generation and "deletionTimestamp" not in metadata:
            metadata["generation"] = metadata.get("generation", 0) + 1
        metadata["deletionTimestamp"] = now(after_seconds=grace)
        metadata["deletionGracePeriodSeconds"] = grace
    if finalizer := _propagation_finalizer(resource, options):
        others = [f for f in metadata.get("finalizers") or () if f not in {FOREGROUND, ORPHAN}]
        metadata["finalizers"] = [*others, finalizer]
    new = {**body, "metadata": metadata}
    if resource.kind == "Namespace":
        new["status"] = {**body["status"], "phase": "Terminating"}
    return new


def _propagation_finalizer(resource: Resource, options: DeleteOptions) -> str | None:
    match options.propagation:
        case "Foreground":
            return FOREGROUND
        case "Orphan":
            return ORPHAN
        case None if resource.orphans_by_default:
            return ORPHAN
        case _:
            return None
