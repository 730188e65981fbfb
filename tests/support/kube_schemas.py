"""Writes Kubernetes' schemas, which a real API server publishes, into files for kubeconform."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

Schema = dict[str, Any]
_GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"
_REF: Final = "#/definitions/"


def write_schemas(openapi: Mapping[str, Any], folder: Path) -> None:
    """Write a file for each kind of the document of `/openapi/v2`, in the folder that kubeconform
    looks into with -strict. An object may have no field that its definition does not name.
    """
    place = folder / "master-standalone-strict"
    place.mkdir(parents=True)
    definitions = {name: _strict(name, it) for name, it in openapi["definitions"].items()}
    for name, definition in definitions.items():
        needed = {it: definitions[it] for it in _needed(name, definitions)}
        text = json.dumps({"$ref": f"{_REF}{name}", "definitions": needed})
        for kind in definition.get(_GROUP_VERSION_KIND, ()):
            group = kind["group"].partition(".")[0]
            parts = (kind["kind"], *([group] if group else []), kind["version"])
            (place / f"{'-'.join(parts).lower()}.json").write_text(text)


def _strict(name: str, definition: Schema) -> Schema:
    """The definition without unknown fields. It takes numbers where the API server takes them."""
    if definition.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    if name.endswith(".Quantity"):
        return {"type": ["string", "number"]}
    if "properties" in definition:
        return {"additionalProperties": False, **definition}
    return definition


def _needed(name: str, definitions: Mapping[str, Schema]) -> set[str]:
    """The definitions that this one refers to, however indirectly, with itself."""
    found, left = set[str](), [name]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += _references(definitions[one])
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(_REF)
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)
