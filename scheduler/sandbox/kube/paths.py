"""Finds the resource, object or subresource that a request's path names."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from scheduler.sandbox.kube.errors import no_such_group, path_not_found
from scheduler.sandbox.kube.resources import BY_PATH, Resource

_VERSIONS = frozenset((group, version) for group, version, _ in BY_PATH)

# below a namespace these are parts of the namespace itself, not resources in it
NAMESPACE_PARTS = frozenset({"status", "finalize"})


@dataclass(frozen=True, slots=True)
class Target:
    """A resource's collection (no name), one object, or a subresource of an object."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split(path: str) -> list[str]:
    """The parts of a path between slashes, decoded."""
    return [unquote(part) for part in path.split("/") if part]


def target(parts: list[str]) -> Target:
    """The target that the parts of a path below /api or /apis name. Raises ApiError 404."""
    group, version, rest = ("", parts[1], parts[2:])
    if parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    if (group, version) not in _VERSIONS:
        raise no_such_group()
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in NAMESPACE_PARTS:
        namespace, rest = rest[1], rest[2:]
    resource = BY_PATH.get((group, version, rest[0]))
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise path_not_found()
    name, subresource = (*rest[1:], "", "")[:2]
    if resource.namespaced and not namespace and (name or subresource):
        raise path_not_found()
    if subresource and resource.subresource(subresource) is None:
        raise path_not_found()
    return Target(resource, namespace, name, subresource)
