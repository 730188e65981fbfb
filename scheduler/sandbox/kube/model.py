"""The state behind the API: objects with the rules of create, update and patch.

Everything here is synchronous, so each call is one transaction. The HTTP server, the kubelets and
the controllers all call this model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from scheduler.sandbox.kube import events, managers, meta, patches, resizing, validation
from scheduler.sandbox.kube.defaults import apply_defaults, initial_status, status_as_stored
from scheduler.sandbox.kube.deletion import DeleteOptions, Deletion, delete, needs_removal
from scheduler.sandbox.kube.errors import (
    already_exists,
    bad_request,
    invalid,
    modified,
    namespace_ends,
    not_found,
    precondition,
)
from scheduler.sandbox.kube.resources import NAMESPACES, Body, Resource
from scheduler.sandbox.kube.store import HISTORY, Key, Store, Stored

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")

SERVER_OWNED = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields")
UNCONDITIONAL_UPDATES_REFUSED = frozenset({"Lease", "PodDisruptionBudget"})


class KubeModel:
    """All objects of one cluster. Every method may raise ApiError.

    `history` is the number of past changes that are kept of each resource, for watches.
    """

    def __init__(self, *, history: int = HISTORY) -> None:
        self.store = Store(history=history)
        self._applied: dict[tuple[str, str], Body] = {}
        for name in FIRST_NAMESPACES:
            self.create(NAMESPACES, "", {"metadata": {"name": name}})

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """One object. Raises ApiError 404 if it does not exist."""
        stored = self.store.get(resource.storage, (namespace, name))
        if stored is None:
            raise not_found(resource.plural, name, group=resource.group)
        return stored

    def find(self, resource: Resource, namespace: str, name: str) -> Body | None:
        """One object's body; None if the object does not exist."""
        stored = self.store.get(resource.storage, (namespace, name))
        return None if stored is None else stored.body

    def bodies(self, resource: Resource, namespace: str = "") -> Iterable[Body]:
        """All objects, or those of one namespace. Later changes do not affect the returned list."""
        objects = self.store[resource.storage].objects
        return [s.body for key, s in objects.items() if not namespace or key[0] == namespace]

    def create(
        self, resource: Resource, namespace: str, body: Body, *, dry_run: bool = False
    ) -> Stored:
        """Store a new object."""
        check_kind(resource, body)
        body = events.to_core(body) if resource.stored_as else body
        metadata = self._new_metadata(resource, namespace, body.get("metadata") or {})
        new = {**body, "apiVersion": _stored_version(resource), "kind": resource.kind}
        new = initial_status(resource, apply_defaults(resource, {**new, "metadata": metadata}))
        validation.check_new(resource, new)
        key = (namespace, metadata["name"])
        if self.store.get(resource.storage, key) is not None:
            raise already_exists(resource.plural, metadata["name"], group=resource.group)
        return Stored(new, 0) if dry_run else self.store.put(resource.storage, key, new)

    def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Body,
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Stored:
        """Replace an object, or the part that `subresource` names."""
        check_kind(resource, body)
        body = events.to_core(body) if resource.stored_as else body
        old = self.get(resource, namespace, name)
        metadata = body.get("metadata") or {}
        if metadata.get("name", name) != name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the "
                f"URL ({name})"
            )
        _check_uid(resource, (namespace, name), wanted=metadata.get("uid"), found=old)
        if not metadata.get("resourceVersion") and resource.kind in UNCONDITIONAL_UPDATES_REFUSED:
            cause = (
                "metadata.resourceVersion",
                "Invalid value: 0: must be specified for an update",
            )
            raise invalid(resource.kind, name, [cause], group=resource.group)
        body = {**body, "metadata": {**metadata, "name": name}}
        return self._replace(
            resource, old, body, subresource=subresource, manager=manager, dry_run=dry_run
        )

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        *,
        content_type: str,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Stored:
        """Change an object, or the part that `subresource` names, by a patch."""
        old = self.get(resource, namespace, name)
        if resource.stored_as:
            patched = patches.apply_patch(content_type, events.to_new(old.body), patch)
            new = events.to_core(patched)
        else:
            new = patches.apply_patch(content_type, old.body, patch)
        _check_shape(resource, new)
        return self._replace(
            resource, old, new, subresource=subresource, manager=manager, dry_run=dry_run
        )

    def apply(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        wanted: Body,
        *,
        manager: str,
        subresource: str = "",
        dry_run: bool = False,
    ) -> tuple[Stored, bool]:
        """Server-side apply. Returns the object, and whether it was created.

        Fields that this manager has applied before, and does not apply now, are removed. Managers
        never conflict.
        """
        check_kind(resource, wanted)
        wanted = {**wanted, "metadata": {**(wanted.get("metadata") or {}), "name": name}}
        old = self.store.get(resource.storage, (namespace, name))
        if old is None:
            stored, created = self.create(resource, namespace, wanted, dry_run=dry_run), True
        else:
            before = self._applied.get((old.body["metadata"]["uid"], manager), {})
            target = patches.unapplied(old.body, before, wanted)
            new = patches.apply_patch(patches.APPLY_PATCH, target, wanted)
            created = False
            stored = self._replace(
                resource, old, new, subresource=subresource, manager=manager, dry_run=dry_run
            )
        if not dry_run:
            self._applied[stored.body["metadata"]["uid"], manager] = wanted
        return stored, created

    def modify(
        self,
        resource: Resource,
        body: Body,
        change: Callable[[Body], Body],
        *,
        subresource: str = "status",
    ) -> Stored | None:
        """Change the object of which `body` is a state. Returns None if it does not exist any more,
        or if another object has its name.
        """
        metadata = body["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        old = self.store.get(resource.storage, key)
        if old is None or old.body["metadata"]["uid"] != metadata["uid"]:
            return None
        return self._replace(resource, old, change(old.body), subresource=subresource)

    def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions
    ) -> Deletion:
        """Delete an object, or begin its deletion if a finalizer or a grace period delays it."""
        self.get(resource, namespace, name)
        deletion = delete(self.store, resource, (namespace, name), options)
        if deletion.finished:
            self._forget(deletion.stored)
        return deletion

    def compact(self) -> None:
        """Forget all former states, so that watches and pages from older versions get 410."""
        self.store.compact()

    def _new_metadata(self, resource: Resource, namespace: str, given: Body) -> Body:
        self._check_namespace(resource, namespace, given)
        metadata = {key: value for key, value in given.items() if key not in SERVER_OWNED}
        metadata.pop("resourceVersion", None)
        metadata.pop("selfLink", None)
        if not metadata.get("name"):
            prefix = metadata.get("generateName")
            metadata["name"] = meta.generated_name(prefix) if prefix else ""
        if namespace:
            metadata["namespace"] = namespace
        metadata["uid"] = meta.new_uid()
        metadata["creationTimestamp"] = meta.now()
        if resource.tracks_generation:
            metadata["generation"] = 1
        return metadata

    def _check_namespace(self, resource: Resource, namespace: str, given: Body) -> None:
        if not resource.namespaced:
            return
        if given.get("namespace", namespace) not in {"", namespace}:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        if self.find(NAMESPACES, "", namespace) is None:
            raise not_found("namespaces", namespace)
        self.check_lasts(resource, namespace, str(given.get("name", "")))

    def check_lasts(self, resource: Resource, namespace: str, name: str) -> None:
        """Check that the namespace is not being deleted, before an object or a binding is created
        in it. Raises ApiError 403 if it is.
        """
        found = self.find(NAMESPACES, "", namespace)
        if found is not None and meta.is_leaving(found):
            raise namespace_ends(resource.plural, name, namespace, group=resource.group)

    def _replace(
        self,
        resource: Resource,
        old: Stored,
        new: Body,
        *,
        subresource: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Stored:
        _check_version(resource, old, new)
        merged = _merged(resource, old.body, new, subresource=subresource)
        validation.check_update(resource, old.body, merged, resize=subresource == "resize")
        if merged == old.body:
            return old
        if dry_run:
            return Stored(merged, old.version)
        metadata = merged["metadata"]
        if resource.notes_managers and subresource == "status":
            metadata["managedFields"] = managers.noted(old.body, merged, manager=manager)
        key = (metadata.get("namespace", ""), metadata["name"])
        return self._write(resource, key, merged)

    def _write(self, resource: Resource, key: Key, body: Body) -> Stored:
        if needs_removal(resource, body):
            last = self.store.remove(resource.storage, key)
            self._forget(last)
            return last
        return self.store.put(resource.storage, key, body)

    def _forget(self, stored: Stored) -> None:
        uid = stored.body["metadata"]["uid"]
        for known in [known for known in self._applied if known[0] == uid]:
            del self._applied[known]


def check_kind(resource: Resource, body: Any) -> None:
    """Raises ApiError 400 if the body has another kind or version than its path."""
    if not isinstance(body, dict):
        raise bad_request("the object provided is unrecognized (must be of type map)")
    if body.get("kind", resource.kind) != resource.kind:
        raise bad_request(
            f'{body["kind"]} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: unknown conversion"
        )
    if body.get("apiVersion", resource.api_version) != resource.api_version:
        raise bad_request(
            f"the API version in the data ({body['apiVersion']}) does not match the expected API "
            f"version ({resource.api_version})"
        )
    _check_shape(resource, body)


def _check_shape(resource: Resource, body: Body) -> None:
    metadata = body.get("metadata")
    for field, value, kind in (
        ("metadata", metadata, dict),
        *((field, body.get(field), dict) for field in ("spec", "status")),
        *((f"metadata.{field}", _field(metadata, field), kind) for field, kind in _SHAPES.items()),
    ):
        if value is not None and not isinstance(value, kind):
            raise bad_request(
                f'{resource.kind} in version "{resource.version}" cannot be handled as a '
                f"{resource.kind}: json: cannot unmarshal {value!r} into field {field}"
            )


_SHAPES = {
    "name": str,
    "generateName": str,
    "namespace": str,
    "uid": str,
    "resourceVersion": str,
    "labels": dict,
    "annotations": dict,
    "finalizers": list,
    "ownerReferences": list,
}


def _field(metadata: Any, field: str) -> Any:
    return metadata.get(field) if isinstance(metadata, dict) else None


def _stored_version(resource: Resource) -> str:
    return "v1" if resource.stored_as else resource.api_version


def _check_uid(resource: Resource, key: Key, *, wanted: str | None, found: Stored) -> None:
    uid = found.body["metadata"]["uid"]
    if wanted and wanted != uid:
        raise precondition(
            resource.plural, key, "UID", wanted=wanted, found=uid, group=resource.group
        )


def _check_version(resource: Resource, old: Stored, new: Body) -> None:
    wanted = (new.get("metadata") or {}).get("resourceVersion")
    if wanted and wanted != old.body["metadata"]["resourceVersion"]:
        raise modified(resource.plural, old.body["metadata"]["name"], group=resource.group)


def _merged(resource: Resource, old: Body, new: Body, *, subresource: str) -> Body:
    """The state to store. Only the part of the sent object that the request is for is used."""
    merged = {**new, "apiVersion": old["apiVersion"], "kind": old["kind"]}
    merged["metadata"] = _merged_metadata(resource, old["metadata"], new.get("metadata") or {})
    if subresource == "status":
        status = status_as_stored(resource, new.get("status") or {})
        merged = {**old, "metadata": merged["metadata"], "status": status}
        if owners := old["metadata"].get("ownerReferences"):
            merged["metadata"]["ownerReferences"] = owners
        return apply_defaults(resource, merged) if resource.kind == "Node" else merged
    if subresource == "resize":
        merged = {**old, "spec": resizing.resized(old["spec"], new.get("spec") or {})}
        merged["metadata"] = dict(old["metadata"])
    if resource.has_status:
        merged["status"] = old.get("status", {})
    if merged.get("spec") != old.get("spec") or not resource.has_spec:
        merged = apply_defaults(resource, merged)
    if resource.tracks_generation and merged.get("spec") != old.get("spec"):
        merged["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return merged


def _merged_metadata(resource: Resource, old: Body, new: Body) -> Body:
    metadata = dict(new)
    for field in (*SERVER_OWNED, "resourceVersion"):
        metadata.pop(field, None)
        if field in old:
            metadata[field] = old[field]
    for field in ("uid", "creationTimestamp", "namespace", "generateName"):
        if not metadata.get(field) and field in old:
            metadata[field] = old[field]
    for field in ("finalizers", "ownerReferences", "labels", "annotations"):
        if field in metadata and not metadata[field]:
            del metadata[field]
    if meta.is_leaving({"metadata": old}):
        _check_finalizers(resource, old, metadata)
    return metadata


def _check_finalizers(resource: Resource, old: Body, new: Body) -> None:
    present = old.get("finalizers") or ()
    if added := [name for name in new.get("finalizers") or () if name not in present]:
        text = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new "
            f"finalizers {added}"
        )
        cause = ("metadata.finalizers", text)
        raise invalid(resource.kind, old["name"], [cause], group=resource.group)
