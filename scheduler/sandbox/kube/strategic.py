"""Strategic merge patch: merges JSON objects, and lists whose elements have keys.

The Kubernetes types define the key of each list (`patchMergeKey`). Here a table by field name is
enough, because the field names are unique enough.
"""

from __future__ import annotations

from typing import Any

from scheduler.sandbox.kube.errors import bad_request

Body = dict[str, Any]

MERGE_KEYS = {
    "conditions": "type",
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "schedulingGates": "name",
    "resourceClaims": "name",
    "ownerReferences": "uid",
    "addresses": "type",
    "podIPs": "ip",
    "hostIPs": "ip",
    "secrets": "name",
}
SETS = frozenset({"finalizers"})

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_VALUES = "$deleteFromPrimitiveList/"


def strategic_merge(target: Any, patch: Body) -> Body:
    """The target with the patch applied; neither is changed. Raises ApiError 400."""
    if patch.get(_DIRECTIVE) == "replace":
        return _clean_object(patch)
    if patch.get(_DIRECTIVE) == "delete":
        return {}
    merged: Body = dict(target) if isinstance(target, dict) else {}
    if isinstance(retained := patch.get(_RETAIN), list):
        merged = {key: value for key, value in merged.items() if key in retained}
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(merged, key, value)
    _apply_list_directives(merged, patch)
    return merged


def merge_key(field: str, element: Any) -> str | None:
    """The field that identifies the elements of a list; None if a patch replaces the list."""
    if not isinstance(element, dict):
        return None
    if field == "ports":
        return "containerPort" if "containerPort" in element else "port"
    return MERGE_KEYS.get(field)


def _merge_field(merged: Body, key: str, value: Any) -> None:
    if value is None:
        merged.pop(key, None)
    elif isinstance(value, dict):
        present = merged.get(key)
        if value.get(_DIRECTIVE) == "delete":
            merged.pop(key, None)
        else:
            merged[key] = strategic_merge(present, value)
    elif isinstance(value, list):
        merged[key] = _merge_list(key, merged.get(key) or [], value)
    else:
        merged[key] = value


def _merge_list(field: str, present: list[Any], patch: list[Any]) -> list[Any]:
    if field in SETS:
        return [*present, *(value for value in patch if value not in present)]
    key = merge_key(field, patch[0]) if patch else MERGE_KEYS.get(field)
    if key is None:
        return [_clean(element) for element in patch]
    if any(element.get(_DIRECTIVE) == "replace" for element in patch):
        return [_clean(element) for element in patch if _DIRECTIVE not in element]
    merged = list(present)
    for element in patch:
        _merge_element(merged, key, element, field=field)
    return merged


def _merge_element(merged: list[Any], key: str, element: Body, *, field: str) -> None:
    if key not in element:
        raise bad_request(f"map: {element} does not contain declared merge key: {key} ({field})")
    wanted = element[key]
    index = next((i for i, old in enumerate(merged) if old.get(key) == wanted), None)
    if element.get(_DIRECTIVE) == "delete":
        if index is not None:
            del merged[index]
    elif index is None:
        merged.append(strategic_merge({}, element))
    else:
        merged[index] = strategic_merge(merged[index], element)


def _apply_list_directives(merged: Body, patch: Body) -> None:
    for key, value in patch.items():
        if key.startswith(_DELETE_VALUES):
            field = key.removeprefix(_DELETE_VALUES)
            merged[field] = [item for item in merged.get(field) or [] if item not in value]
        elif key.startswith(_ORDER):
            field = key.removeprefix(_ORDER)
            if isinstance(merged.get(field), list):
                merged[field] = _ordered(field, merged[field], value)


def _ordered(field: str, items: list[Any], order: list[Any]) -> list[Any]:
    """The items that `order` names, in that order, and then the others in their present order."""
    key = merge_key(field, items[0]) if items else None
    named = [item[key] if key and isinstance(item, dict) else item for item in order]

    def place(item: Any) -> int:
        name = item.get(key) if key and isinstance(item, dict) else item
        return named.index(name) if name in named else len(named)

    return sorted(items, key=place)


def _clean(value: Any) -> Any:
    """The value without directives and nulls, as it is added to an object."""
    if isinstance(value, dict):
        return _clean_object(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _clean_object(value: Body) -> Body:
    return {
        key: _clean(item)
        for key, item in value.items()
        if item is not None and not key.startswith("$")
    }
