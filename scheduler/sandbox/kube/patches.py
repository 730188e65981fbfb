"""The patch formats: merge patch (RFC 7386), JSON patch (RFC 6902), strategic merge, apply."""

from __future__ import annotations

from typing import Any

from scheduler.sandbox.kube.errors import ApiError, bad_request, unsupported_media_type
from scheduler.sandbox.kube.strategic import merge_key, strategic_merge

Body = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)


def apply_patch(content_type: str, target: Body, patch: Any) -> Body:
    """The target with the patch applied; neither is changed.

    Raises ApiError: 400 for a patch of the wrong form, 415 for an unknown format, 422 for a JSON
    patch that does not fit the object.
    """
    if content_type == JSON_PATCH:
        return _json_patch(target, patch)
    if content_type not in PATCH_TYPES:
        raise unsupported_media_type(", ".join(PATCH_TYPES))
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type map")
    if content_type == MERGE_PATCH:
        return _merge_fields(target, patch)
    return strategic_merge(target, patch)


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    return _merge_fields(target if isinstance(target, dict) else {}, patch)


def _merge_fields(target: Body, patch: Body) -> Body:
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def unapplied(live: Any, before: Any, wanted: Any, *, field: str = "") -> Any:
    """The live object without the fields that its manager applied before and does not apply now."""
    if isinstance(live, dict) and isinstance(before, dict) and isinstance(wanted, dict):
        kept = dict(live)
        for key, old in before.items():
            if key not in kept:
                continue
            if key in wanted:
                kept[key] = unapplied(kept[key], old, wanted[key], field=key)
            elif key not in {"apiVersion", "kind"}:
                del kept[key]
        return kept
    if isinstance(live, list) and isinstance(before, list) and isinstance(wanted, list):
        return _unapplied_list(live, before, wanted, field=field)
    return live


def _unapplied_list(
    live: list[Any], before: list[Any], wanted: list[Any], *, field: str
) -> list[Any]:
    key = merge_key(field, before[0]) if before else None
    if key is None:
        return live
    old = {element.get(key): element for element in before}
    new = {element.get(key): element for element in wanted}
    return [
        unapplied(element, old[name], new[name]) if name in old and name in new else element
        for element in live
        if (name := element.get(key)) in new or name not in old
    ]


def _json_patch(target: Body, operations: Any) -> Body:
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: json: cannot unmarshal into Go value of type list")
    result: Any = _copied(target)
    for operation in operations:
        try:
            result = _operate(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            text = f"the server rejected our request due to an error in our request: {error!r}"
            raise ApiError(422, "Invalid", text, details={}) from error
    if not isinstance(result, dict):
        raise bad_request("a JSON patch must leave an object")
    return result


def _operate(document: Any, operation: Body) -> Any:
    path = _pointer(operation["path"])
    match operation["op"]:
        case "add":
            return _put(document, path, operation["value"], insert=True)
        case "replace":
            _find(document, path)
            return _put(document, path, operation["value"], insert=False)
        case "remove":
            _take(document, path)
            return document
        case "test":
            if _find(document, path) != operation["value"]:
                raise ValueError(f"testing value {operation['path']} failed")
            return document
        case "copy":
            value = _copied(_find(document, _pointer(operation["from"])))
            return _put(document, path, value, insert=True)
        case "move":
            value = _take(document, _pointer(operation["from"]))
            return _put(document, path, value, insert=True)
        case other:
            raise ValueError(f"unexpected kind: {other}")


def _pointer(path: str) -> list[str]:
    if path == "":
        return []
    if not path.startswith("/"):
        raise ValueError(f"a pointer begins with /: {path}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]


def _find(document: Any, path: list[str]) -> Any:
    for part in path:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _put(document: Any, path: list[str], value: Any, *, insert: bool) -> Any:
    if not path:
        return value
    parent = _find(document, path[:-1])
    if not isinstance(parent, list):
        parent[path[-1]] = value
    elif path[-1] == "-":
        parent.append(value)
    elif insert:
        parent.insert(_within(int(path[-1]), len(parent)), value)
    else:
        parent[int(path[-1])] = value
    return document


def _within(index: int, length: int) -> int:
    if not 0 <= index <= length:
        raise IndexError(index)
    return index


def _take(document: Any, path: list[str]) -> Any:
    parent = _find(document, path[:-1])
    return parent.pop(int(path[-1])) if isinstance(parent, list) else parent.pop(path[-1])


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
