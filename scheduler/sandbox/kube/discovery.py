"""API discovery: the documents that tell clients which groups, versions and resources exist."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.sandbox.kube.resources import RESOURCES, Body, Resource, Subresource

VERSION: Body = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+sandbox",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}


def groups() -> list[tuple[str, str]]:
    """All named groups with their versions, in the order of the table of resources."""
    return list(dict.fromkeys((r.group, r.version) for r in RESOURCES if r.group))


def core_versions() -> Body:
    """The document at /api."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list() -> Body:
    """The document at /apis."""
    listed = [group_document(group) for group, _ in groups()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group_document(group: str) -> Body | None:
    """The document at /apis/<group>; None if there is no such group."""
    version = dict(groups()).get(group)
    if version is None:
        return None
    offered = {"groupVersion": f"{group}/{version}", "version": version}
    return {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group,
        "versions": [offered],
        "preferredVersion": offered,
    }


def resource_list(group: str, version: str) -> Body | None:
    """The document at /api/v1 or /apis/<group>/<version>; None if there is no such version."""
    found = _of(group, version)
    if not found:
        return None
    rows = [row for resource in found for row in _rows(resource)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": found[0].api_version,
        "resources": rows,
    }


def aggregated(*, core: bool) -> Body:
    """All groups and their resources in one document (apidiscovery.k8s.io/v2)."""
    names = [("", "v1")] if core else groups()
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(group, version) for group, version in names],
    }


def _aggregated_group(group: str, version: str) -> Body:
    resources = [_aggregated_resource(resource) for resource in _of(group, version)]
    return {
        "metadata": {"name": group} if group else {},
        "versions": [{"version": version, "freshness": "Current", "resources": resources}],
    }


def _aggregated_resource(resource: Resource) -> Body:
    row: Body = {
        "resource": resource.plural,
        "responseKind": _kind(resource.group, resource.version, resource.kind),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short:
        row["shortNames"] = list(resource.short)
    if resource.categories:
        row["categories"] = list(resource.categories)
    if subresources := list(_subresources(resource)):
        row["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": _kind(
                    sub.group or resource.group, _version(resource, sub), sub.kind
                ),
                "verbs": list(sub.verbs),
            }
            for sub in subresources
        ]
    return row


def _rows(resource: Resource) -> Iterable[Body]:
    row: Body = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short:
        row["shortNames"] = list(resource.short)
    if resource.categories:
        row["categories"] = list(resource.categories)
    yield row
    for sub in _subresources(resource):
        below: Body = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }
        if sub.version:
            below |= {"group": sub.group, "version": sub.version}
        yield below


def _subresources(resource: Resource) -> Iterable[Subresource]:
    yield from resource.subresources
    status = resource.subresource("status")
    if status is not None:
        yield status


def _kind(group: str, version: str, kind: str) -> Body:
    return {"group": group, "version": version, "kind": kind}


def _version(resource: Resource, sub: Subresource) -> str:
    return sub.version or resource.version


def _of(group: str, version: str) -> list[Resource]:
    return [r for r in RESOURCES if (r.group, r.version) == (group, version)]
