"""What is to be done to a document, as data: changes, and notes about what people must decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from annotations import Problem

Path = tuple[str | int, ...]
"""Keys of mappings and places in lists, from the top of a document."""


@dataclass(frozen=True, slots=True)
class Put:
    """Set a value. Mappings above it that are missing, or null, are made. `source` is where the
    value stood before, maybe with a comment.
    """

    path: Path
    value: str | int
    source: Path = ()


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove a key of a mapping. A mapping that has no other key goes too."""

    path: Path


@dataclass(frozen=True, slots=True)
class Rename:
    """Give a key of a mapping another name and value, where it stands."""

    path: Path
    key: str
    value: str


DocumentChange = Put | Drop | Rename


@dataclass(frozen=True, slots=True)
class Note:
    """Something that people must decide. `path` is the nearest part of the document; `of` names the
    object.
    """

    path: Path
    problem: Problem
    of: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is to be done to a document."""

    changes: tuple[DocumentChange, ...] = ()
    notes: tuple[Note, ...] = ()

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.changes + other.changes, self.notes + other.notes)


def at(data: Any, path: Path) -> Any:
    """The part of the document; None if there is none."""
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def mapping_at(data: Any, path: Path) -> Mapping[Any, Any]:
    """The mapping there; an empty one if there is none."""
    found = at(data, path)
    return found if isinstance(found, Mapping) else {}


def applied(data: Any, changes: Iterable[DocumentChange]) -> Any:
    """The document after the changes."""
    data = deepcopy(data)
    for change in changes:
        match change:
            case Put(path=path, value=value):
                _parent(data, path)[path[-1]] = value
            case Rename(path, key, value):
                parent = at(data, path[:-1])
                del parent[path[-1]]
                parent[key] = value
            case Drop(path):
                _drop(data, path)
    return data


def _parent(data: Any, path: Path) -> Any:
    for step in path[:-1]:
        if isinstance(data, dict) and data.get(step) is None:
            data[step] = {}
        data = data[step]
    return data


def _drop(data: Any, path: Path) -> None:
    parent = at(data, path[:-1])
    del parent[path[-1]]
    if not parent:
        _drop(data, path[:-1])
