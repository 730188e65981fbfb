"""`metadata.managedFields`: which client has written which part of a status last.

The real server notes every field of every object. Here that is done for the statuses of PodGroups,
by the names of their fields and the types of their conditions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scheduler.sandbox.kube import meta
from scheduler.sandbox.kube.resources import Body

_Path = tuple[str, ...]
_CONDITIONS = "f:conditions"


def noted(old: Body, new: Body, *, manager: str) -> list[Body]:
    """The notes on an object whose status this client has changed: it has written what differs."""
    before, now = _parts(old.get("status")), _parts(new.get("status"))
    changed = {path for path, value in now.items() if before.get(path) != value}
    entries = []
    own: set[_Path] = set()
    for entry in old["metadata"].get("managedFields") or ():
        paths = set(_paths(entry)) & now.keys()
        if entry["manager"] == manager:
            own = paths
        elif paths - changed:
            entries.append({**entry, "fieldsV1": _fields(paths - changed)})
    written = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": new["apiVersion"],
        "time": meta.now(),
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(own | changed),
        "subresource": "status",
    }
    return [*entries, written]


def _parts(status: Body | None) -> dict[_Path, Any]:
    found: dict[_Path, Any] = {}
    for name, value in (status or {}).items():
        if name != "conditions":
            found[f"f:{name}",] = value
            continue
        for condition in value or ():
            found[_CONDITIONS, f'k:{{"type":"{condition.get("type")}"}}'] = condition
    return found


def _paths(entry: Body) -> Iterable[_Path]:
    for name, below in entry["fieldsV1"].get("f:status", {}).items():
        if name == _CONDITIONS:
            yield from ((name, key) for key in below)
        else:
            yield (name,)


def _fields(paths: Iterable[_Path]) -> Body:
    status: Body = {}
    for name, *below in sorted(paths):
        fields = status.setdefault(name, {})
        for key in below:
            fields[key] = {}
    return {"f:status": status}
