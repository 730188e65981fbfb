"""The subresource pods/resize, which changes the CPU and memory of containers.

Other fields of the sent pod are ignored (measured on Kubernetes 1.36.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scheduler.sandbox.kube.resources import Body

_LISTS: Final = ("containers", "initContainers")
_MUTABLE: Final = frozenset({"cpu", "memory"})


def resized(old: Body, sent: Body) -> Body:
    """The pod's old spec with the sent resources of its containers."""
    return {**old, **{field: _containers(old, sent, field) for field in _LISTS if old.get(field)}}


def complaints(old: Body, new: Body) -> Iterator[tuple[str, str]]:
    """The complaints about the change, as pairs of field and text."""
    if _fixed(old) != _fixed(new):
        yield "spec", "Forbidden: only cpu and memory resources are mutable"


def _containers(old: Body, sent: Body, field: str) -> list[Body]:
    wanted = {each.get("name"): each for each in sent.get(field) or ()}
    return [
        {**each, "resources": wanted.get(each["name"], each).get("resources", {})}
        for each in old[field]
    ]


def _fixed(spec: Body) -> list[Any]:
    """The resources that a resize may not change: all but CPU and memory."""
    return [
        {
            name: quantity
            for name, quantity in (each.get("resources", {}).get(kind) or {}).items()
            if name not in _MUTABLE
        }
        for field in _LISTS
        for each in spec.get(field) or ()
        for kind in ("requests", "limits")
    ]
