"""The properties of a job that can be changed, their checks, and their JSON, verified against
Slurm.

An update is not atomic: if slurmctld refuses a priority, what it has changed before that stays
changed (measured on 26.05.5 and 24.11.5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, TypedDict

import msgspec

from slurmapi.errors import SlurmInvalid
from slurmapi.submission import number, problem

# NICE_OFFSET of slurm.h.
_MOST_NICE: Final = 2**31 - 3
# INFINITE - 2 of slurm.h: the two larger values have special meanings.
_MOST_PRIORITY: Final = 2**32 - 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """Changes of one job; None leaves a property as it is.

    An empty text removes a comment or a reservation; an account, a QoS or a partition can only be
    replaced. An empty `excluded_nodes` excludes no node. `priority_reset` lets Slurm compute the
    priority again. Only a pending job takes `tasks` with their `total_cpus`, and `nodes` with them
    unless Slurm packs the tasks; how many a node gets stays as it is. `required_nodes` of a running
    job are the nodes that it keeps: Slurm frees the others at once.

    Measured: Slurm accepts `nice` but ignores it if the priority was set. It refuses a priority for
    a held job (error 2042), even if the same update releases the job. A hold by an operator shows
    as JobHeldAdmin. Without slurmdbd it accepts an account or a QoS and ignores it.
    """

    comment: str | None = None
    admin_comment: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    time_limit_minutes: int | None = None
    priority: int | None = None
    priority_reset: bool = False
    nice: int | None = None
    held: bool | None = None
    nodes: int | None = None
    tasks: int | None = None
    total_cpus: int | None = None
    required_nodes: tuple[str, ...] | None = None
    excluded_nodes: tuple[str, ...] | None = None


class Changes(TypedDict, total=False):
    """The fields of JobUpdate as keyword arguments."""

    comment: str | None
    admin_comment: str | None
    partition: str | None
    account: str | None
    qos: str | None
    reservation: str | None
    time_limit_minutes: int | None
    priority: int | None
    priority_reset: bool
    nice: int | None
    held: bool | None
    nodes: int | None
    tasks: int | None
    total_cpus: int | None
    required_nodes: tuple[str, ...] | None
    excluded_nodes: tuple[str, ...] | None


def encode_update(update: JobUpdate) -> bytes:
    """The body of `POST job/{id}`. Raises SlurmInvalid, which names every unacceptable field, and
    ValueError if there is nothing to change.
    """
    if update == JobUpdate():
        raise ValueError("nothing to change: give at least one property")
    problems = list(_update_problems(update))
    if problems:
        raise SlurmInvalid("update not sent: " + "; ".join(problems))
    given = {name: value for name, value in _update_body(update) if value is not None}
    try:
        return msgspec.json.encode(given)
    except UnicodeEncodeError as error:
        raise SlurmInvalid(f"update not sent: text that is no UTF-8 ({error.reason})") from None


def _update_body(update: JobUpdate) -> Iterator[tuple[str, Any]]:
    yield "comment", update.comment
    yield "admin_comment", update.admin_comment
    yield "partition", update.partition
    yield "account", update.account
    yield "qos", update.qos
    yield "reservation", update.reservation
    yield "time_limit", number(update.time_limit_minutes)
    # A plain integer, as the API specifies; Slurm refuses a structure (measured).
    yield "nice", update.nice
    reset = {"set": False, "infinite": True} if update.priority_reset else None
    yield "priority", reset or number(update.priority)
    yield "hold", update.held
    yield "nodes", None if update.nodes is None else str(update.nodes)
    yield "tasks", update.tasks
    yield "minimum_cpus", update.total_cpus
    yield "required_nodes", _node_names(update.required_nodes)
    yield "excluded_nodes", _node_names(update.excluded_nodes)


def _node_names(nodes: tuple[str, ...] | None) -> list[str] | None:
    """An empty list changes nothing, a list with one empty name clears (26.05.5 and 24.11.5)."""
    return None if nodes is None else list(nodes) or [""]


def _update_problems(update: JobUpdate) -> Iterator[str]:
    for name in (field.name for field in fields(update)):
        value = getattr(update, name)
        if value is None or (name == "reservation" and value == ""):
            continue
        found = (
            _range_problem(name, value)
            if name in _RANGES
            else problem(_SUBMITTED.get(name, name), value)
        )
        if found is not None:
            yield found
    if update.priority_reset and update.priority is not None:
        yield "priority_reset: there is a priority to set"
    # Measured: Slurm would give no CPU to a node without a task, and `nodes` alone would take nodes
    # from a job that runs.
    if (update.nodes or 0) > (update.tasks or 0):
        yield f"tasks is {update.tasks}, expected at least one for each node"
    # Measured: Slurm would count one CPU for each task, and never start the job.
    if (update.tasks or 0) > (update.total_cpus or 0):
        yield f"total_cpus is {update.total_cpus}, expected at least one for each task"
    if update.tasks is None and update.total_cpus is not None:
        yield "total_cpus: there are no tasks to change"


_RANGES: Final = {"priority": (0, _MOST_PRIORITY), "nice": (-_MOST_NICE, _MOST_NICE)}
# Fields that are checked by the rule of another name.
_SUBMITTED: Final = {"priority_reset": "held", "tasks": "nodes", "total_cpus": "cpus"}


def _range_problem(name: str, value: object) -> str | None:
    low, high = _RANGES[name]
    if type(value) is int and low <= value <= high:
        return None
    return f"{name} is {value!r:.60}, expected an integer from {low} to {high}"
