"""Moves slurm-bridge's annotations to the pods: it reads those of the object around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from annotations import PREFIX, Problem
from scheduler.migrate import bridge
from scheduler.migrate.changes import (
    DocumentChange,
    Drop,
    Note,
    Path,
    Plan,
    Put,
    Rename,
    at,
    mapping_at,
)
from scheduler.migrate.objects import Workload

_OWN: Final = ("metadata", "annotations")
_IGNORED: Final = "it on purpose: slurm-bridge ignores it on the pod template, and now it counts"
_WRITTEN: Final = "no such key: slurm-bridge writes it on pods"


def bridge_annotations(data: Any, pods: Workload) -> Plan:
    """What happens to the annotations of a workload."""
    root = (*pods.root, "annotations")
    places = [(*it, *_OWN) for it in pods.templates]
    outside = [] if root in places else _theirs(data, root)
    found = Plan()
    for name in outside:
        found += _moved(data, pods, (*root, bridge.PREFIX + name))
    for place in places:
        for name in _theirs(data, place):
            found += _in_place(data, pods, (*place, bridge.PREFIX + name), decided=name in outside)
    whole = tuple(_whole_node(data, pods, [root, *places]))
    return found + Plan(whole, tuple(_written(data, pods)))


def _theirs(data: Any, place: Path) -> list[str]:
    found = mapping_at(data, place)
    return [
        str(key).removeprefix(bridge.PREFIX) for key in found if str(key).startswith(bridge.PREFIX)
    ]


def _moved(data: Any, pods: Workload, path: Path) -> Plan:
    """An annotation of the object around the pods."""
    name, value = str(path[-1]).removeprefix(bridge.PREFIX), str(at(data, path))
    ours = bridge.translated(name, value)
    if isinstance(ours, Problem):
        return _noted(pods, path, ours)
    puts: list[DocumentChange] = []
    for template in pods.templates if ours is not None else ():
        key, wanted = (PREFIX + ours[0], ours[1]) if ours else ("", "")
        there = at(data, (*template, *_OWN, key))
        if there not in (None, wanted):
            return _noted(pods, path, _conflict(path, value, key, there))
        if there is None:
            puts.append(Put((*template, *_OWN, key), wanted, source=path))
    return Plan((*puts, Drop(path)))


def _in_place(data: Any, pods: Workload, path: Path, *, decided: bool) -> Plan:
    """An annotation of a pod. It is `decided` if the object around the pods has the same."""
    value = str(at(data, path))
    ours = bridge.translated(str(path[-1]).removeprefix(bridge.PREFIX), value)
    if decided or ours is None:
        return Plan((Drop(path),))
    if isinstance(ours, Problem):
        return _noted(pods, path, ours)
    key = PREFIX + ours[0]
    there = at(data, (*path[:-1], key))
    if there is not None:
        conflict = _conflict(path, value, key, there)
        return Plan((Drop(path),)) if there == ours[1] else _noted(pods, path, conflict)
    change = Plan((Rename(path, key, ours[1]),))
    if pods.kind == "Pod":
        return change
    return change + _noted(pods, path, Problem(f"metadata.annotations[{key}]", ours[1], _IGNORED))


def _conflict(path: Path, value: str, key: str, there: object) -> Problem:
    return Problem(str(path[-1]), value, f"the value of {key}, {there!r}, or only one of the two")


def _noted(pods: Workload, path: Path, problem: Problem) -> Plan:
    return Plan(notes=(Note(path, problem, pods.title),))


def _whole_node(data: Any, pods: Workload, places: list[Path]) -> Iterator[DocumentChange]:
    """slurm-bridge gives each pod a whole node, unless the pod says otherwise."""
    key, value = bridge.WHOLE_NODE
    names = (bridge.PREFIX + key, PREFIX + key)
    if any(name in mapping_at(data, place) for place in places for name in names):
        return
    for template in pods.templates:
        yield Put((*template, *_OWN, PREFIX + key), value)


def _written(data: Any, pods: Workload) -> Iterator[Note]:
    for template in pods.templates:
        for part in ("labels", "annotations"):
            for key in bridge.WRITTEN:
                path = (*template, "metadata", part, key)
                found = at(data, path)
                if found is not None:
                    problem = Problem(f"metadata.{part}[{key}]", str(found), _WRITTEN)
                    yield Note(path, problem, pods.title)
