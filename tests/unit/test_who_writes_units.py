"""What is remembered of a unit is written by the rooms that own it, and by no other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.state.asked import Asked
from scheduler.state.bindings import Bindings
from scheduler.state.eviction import Eviction
from scheduler.state.gang import Gang
from scheduler.state.refusals import Refusals
from scheduler.state.said import Said, SaidOnPod
from scheduler.state.seen import Seen, SeenOfPod
from scheduler.state.units import Placeholder, Unit

_ROOT: Final = Path(__file__).parents[2]
_STATE: Final = _ROOT / "scheduler" / "state"
# What a room may assign to. `state` itself may assign to all, in the methods below.
_OWNER: Final[dict[type[Any], str]] = {
    Placeholder: "slurm",
    Seen: "facts",
    SeenOfPod: "facts",
    Said: "execute",
    SaidOnPod: "execute",
    Asked: "execute",
    Refusals: "execute",
    Bindings: "execute",
    Eviction: "execute",
    Gang: "execute",
}
_OWNER_OF_FIELD: Final = {"waiting": "reconcile", "silent": "slurm", "binding": "execute"}
"""Of those that stand beside the parts. The others of a unit only its methods write."""
# Who calls a method that writes, where that is not the owner alone.
_CALLERS: Final = {
    "Placeholder.saw": {"slurm"},
    "Placeholder.enter": {"slurm"},
    "Placeholder.confirm": {"slurm"},
    "Placeholder.doubt": {"slurm", "execute"},
    "Placeholder.read_again": {"execute"},
    "Placeholder.believe": {"facts"},
    "Placeholder.recognise": {"facts"},
    "Placeholder.holds": {"facts"},
    "Placeholder.refute": {"execute"},
    "Placeholder.wrote": {"execute"},
    "Placeholder.was_cancelled": {"execute"},
    "Seen.asked_anew": {"execute"},
    "Seen.weighed": {"execute"},
    "Bindings.started": {"service"},
    "Unit.suspect_unrecorded_job": {"facts", "execute"},
    "Unit.settle": {"slurm"},
    "Unit.leave": {"execute"},
    "Unit.is_rid_of": {"slurm"},
    "Units.add": {"facts", "slurm"},
    "Units.join": {"facts"},
    "Units.recall": {"facts", "slurm"},
    "Unit.set_apart": {"facts"},
    "Gang.follow": {"facts"},
    "Gang.go_on_as": {"facts"},
    "Gangs.went": {"service"},
    "Gangs.dissolve": {"execute"},
    "Gangs.set_beside": {"execute"},
    "Units.part": {"execute", "slurm"},
    "Units.remove": {"execute", "reconcile"},
    "Units.clear": {"service"},
    "Units.set_job": {"slurm", "execute"},
    "Units.drop_false_claim": {"facts"},
}
_CHANGES: Final = {"add", "clear", "discard", "lift", "pop", "remove", "setdefault", "update"}
"""Methods of the containers in these fields that change them."""
# The variable names by which the check recognises each part; a call through another name is not
# checked.
_CALLED: Final = {
    "Placeholder": {"job", "held", "placeholder"},
    "Unit": {"unit"},
    "Units": {"units", "_units"},
    "Seen": {"seen"},
    "Bindings": {"bindings"},
    "Gang": {"gang"},
    "Gangs": {"gangs", "_gangs"},
}


def _owners() -> dict[str, set[str]]:
    """Each field, and the rooms that may assign to one of its name."""
    found: dict[str, set[str]] = {field.name: set() for field in fields(Unit)}
    for part, owner in _OWNER.items():
        for field in fields(part):
            found.setdefault(field.name, set()).add(owner)
    for name, owner in _OWNER_OF_FIELD.items():
        found.setdefault(name, set()).add(owner)
    return found


_FIELDS: Final = _owners()


def _written(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement or a call changes, but for those of `self`."""
    found: ast.expr | None = None
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            found = node
        case ast.Subscript(value=ast.Attribute() as found, ctx=ast.Store() | ast.Del()):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Attribute() as found, attr=name)):
            found = found if name in _CHANGES else None
        case _:
            pass
    if isinstance(found, ast.Attribute) and ast.unparse(found.value) != "self":
        yield found


def _callers(call: ast.Call) -> set[str] | None:
    """The rooms that may make this call; None for any that changes nothing of a unit."""
    func = call.func
    if not isinstance(func, ast.Attribute):
        return None
    receiver = ast.unparse(func.value).rpartition(".")[2]
    for what, rooms in _CALLERS.items():
        part, method = what.split(".")
        if func.attr == method and receiver in _CALLED[part]:
            return rooms
    return None


def breaches(room: str, source: str) -> list[str]:
    """What this source of that room writes, though another owns it."""
    nodes = list(ast.walk(ast.parse(source)))
    written = [it for node in nodes for it in _written(node)]
    calls = [it for it in nodes if isinstance(it, ast.Call)]
    foreign = [it for it in written if room not in _FIELDS.get(it.attr, {room})]
    uncalled = [it for it in calls if room not in (_callers(it) or {room})]
    return [ast.unparse(it) for it in (*foreign, *uncalled)]


def _sources() -> Iterator[tuple[Path, str]]:
    """All that can have a unit in its hands."""
    for path in sorted((_ROOT / "scheduler").rglob("*.py")):
        source = path.read_text()
        if path.parent != _STATE and "scheduler.state" in source:
            yield path.relative_to(_ROOT), source


def test_each_room_writes_only_what_it_owns() -> None:
    found = {
        str(path): broken
        for path, source in _sources()
        if (broken := breaches(path.parts[1], source))
    }
    assert not found


def test_all_rooms_that_know_units_are_looked_through() -> None:
    rooms = {path.parts[1] for path, _ in _sources()}
    assert rooms >= {"execute", "facts", "hooks", "nodes", "reconcile", "service", "slurm"}


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("facts", "unit.pods[0].said.reason = ''"),
        ("slurm", "unit.pods[0].seen.orphaned = True"),
        ("slurm", "seen = unit.pods[0].seen; seen.orphaned = True"),
        ("execute", "unit.pods[0].seen.outcome = ''"),
        ("reconcile", "unit.members = {}"),
        ("facts", "gang.shape = None"),
        ("execute", "gang.follow(lives=True, now=0.0)"),
        ("slurm", "self._units.join(unit, pod, member)"),
        ("service", "unit.bindings.at = 0.0"),
        ("execute", "unit.job = None"),
        ("execute", "unit.doubt_since = None"),
        ("execute", "job.missing += 1"),
        ("execute", "unit.job.enter(state, at=0.0)"),
        ("facts", "unit.job.state, x = None, 1"),
        ("facts", "unit.bindings.nodes[uid] = node"),
        ("facts", "del unit.bindings.nodes[uid]"),
        ("nodes", "unit.asked.exclusions.add(node)"),
        ("reconcile", "unit.said.warned.clear()"),
        ("hooks", "self._units.remove(key)"),
        ("slurm", "self._units.binding.pop(key)"),
        ("reconcile", "unit.suspect_unrecorded_job(0.0)"),
        ("nodes", "unit.job.saw(record)"),
        ("execute", "unit.waiting = True"),
        ("execute", "unit.refusals = Refusals()"),
    ],
)
def test_breach_is_noticed(room: str, source: str) -> None:
    assert breaches(room, source)


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("execute", "unit.pods[0].said.reason = ''"),
        ("execute", "unit.bindings.nodes[uid] = node"),
        ("execute", "unit.said.warned.clear()"),
        ("reconcile", "unit.waiting = True"),
        ("facts", "self.reason = unit.pods[0].said.reason"),
        ("facts", "self._coverage.saw(unit)"),
        ("execute", "unit.job.was_cancelled(now)"),
    ],
)
def test_owner_may_write(room: str, source: str) -> None:
    assert not breaches(room, source)


def _methods_that_write() -> set[str]:
    found = set()
    for path in _STATE.glob("*.py"):
        for part in ast.parse(path.read_text()).body:
            if not isinstance(part, ast.ClassDef):
                continue
            for method in part.body:
                if isinstance(method, ast.FunctionDef) and not method.name.startswith("_"):
                    written = {
                        ast.unparse(it)
                        for node in ast.walk(method)
                        for it in ast.walk(node)
                        if isinstance(it, ast.Attribute | ast.Subscript)
                        and isinstance(it.ctx, ast.Store | ast.Del)
                    }
                    if written:
                        found.add(f"{part.name}.{method.name}")
    return found


def test_callers_of_each_method_that_writes_are_named() -> None:
    exclusions = {"Exclusions.add", "Exclusions.lift"}  # checked as a field of Asked
    within = {"SingleGroups.add", "SingleGroups.went"}  # only `Gangs` has one
    # These write by methods of dicts.
    indirect = {"Units.remove", "Units.clear", "Gangs.dissolve"}
    indirect |= {"Gangs.set_beside"}
    assert _methods_that_write() | indirect == set(_CALLERS) | exclusions | within


def test_each_part_of_a_unit_has_an_owner() -> None:
    unit = Unit("key", "ns", "name", seen_at=0.0)
    pod = unit.pods[0]
    parts = {type(getattr(unit, field.name)) for field in fields(unit)}
    parts |= {type(getattr(pod, field.name)) for field in fields(pod)}
    ours = {it for it in parts if it.__module__.startswith("scheduler.state")}
    assert ours | {Placeholder, Gang} == set(_OWNER)
