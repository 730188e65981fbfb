"""The part of OpenAPI v3 that kubectl needs to leave validation to the server.

kubectl looks for the `fieldValidation` parameter in a kind's PATCH. If it finds the parameter, it
does not validate by itself. There are no schemas, so `kubectl explain` shows nothing.
"""

from __future__ import annotations

from scheduler.sandbox.kube.discovery import groups
from scheduler.sandbox.kube.resources import RESOURCES, Body, Resource


def index() -> Body:
    """The document at /openapi/v3, with the URL of each version's document."""
    names = ["api/v1", *(f"apis/{group}/{version}" for group, version in groups())]
    return {"paths": {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in names}}


def document(group: str, version: str) -> Body | None:
    """The document of one version; None if there is no such version."""
    found = [r for r in RESOURCES if (r.group, r.version) == (group, version)]
    if not found:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": {_path(resource): _operations(resource) for resource in found},
        "components": {"schemas": {}},
    }


def _path(resource: Resource) -> str:
    root = "/apis/" + resource.api_version if resource.group else "/api/v1"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"{root}{scope}/{resource.plural}/{{name}}"


def _operations(resource: Resource) -> Body:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    operation = {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind,
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }
    return {"patch": operation}
