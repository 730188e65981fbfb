"""What may be changed of a job, its checks, and the JSON shape that was verified against Slurm.

An update is not all or nothing: what slurmctld has changed before it refuses a priority stays
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
# INFINITE - 2 of slurm.h: the two above it have meanings.
_MOST_PRIORITY: Final = 2**32 - 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """Changes of one job; None leaves a property as it is.

    Empty text takes a comment or a reservation away; an account, a QoS or a partition can only be
    exchanged. An empty `excluded_nodes` excludes none. `priority_reset` leaves it to Slurm again.
    Measured: Slurm takes `nice` and ignores it beside a priority that was set; it refuses a
    priority of a held job (2042), also when the same update releases it; an operator's `held` shows
    as JobHeldAdmin; without slurmdbd it takes an account or a QoS and ignores it.
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
    excluded_nodes: tuple[str, ...] | None


def encode(update: JobUpdate) -> bytes:
    """The body of `POST job/{id}`; raises SlurmInvalid naming every field that would not do, and
    ValueError where there is nothing to change.
    """
    if update == JobUpdate():
        raise ValueError("nothing to change: give at least one property")
    problems = list(_problems(update))
    if problems:
        raise SlurmInvalid("update not sent: " + "; ".join(problems))
    given = {name: value for name, value in _shape(update) if value is not None}
    try:
        return msgspec.json.encode(given)
    except UnicodeEncodeError as error:
        raise SlurmInvalid(f"update not sent: text that is no UTF-8 ({error.reason})") from None


def _shape(update: JobUpdate) -> Iterator[tuple[str, Any]]:
    yield "comment", update.comment
    yield "admin_comment", update.admin_comment
    yield "partition", update.partition
    yield "account", update.account
    yield "qos", update.qos
    yield "reservation", update.reservation
    yield "time_limit", number(update.time_limit_minutes)
    # A plain integer, as the API describes it; a structure is refused (measured).
    yield "nice", update.nice
    reset = {"set": False, "infinite": True} if update.priority_reset else None
    yield "priority", reset or number(update.priority)
    yield "hold", update.held
    # An empty list changes nothing, and one empty name clears (26.05.5 and 24.11.5).
    excluded = update.excluded_nodes
    yield "excluded_nodes", None if excluded is None else list(excluded) or [""]


def _problems(update: JobUpdate) -> Iterator[str]:
    for name in (field.name for field in fields(update)):
        value = getattr(update, name)
        if value is None or (name == "reservation" and value == ""):
            continue
        told = (
            _range(name, value) if name in _RANGES else problem(_SUBMITTED.get(name, name), value)
        )
        if told is not None:
            yield told
    if update.priority_reset and update.priority is not None:
        yield "priority_reset: there is a priority to set"


_RANGES: Final = {"priority": (0, _MOST_PRIORITY), "nice": (-_MOST_NICE, _MOST_NICE)}
# Fields whose rule stands under another name.
_SUBMITTED: Final = {"priority_reset": "held"}


def _range(name: str, value: object) -> str | None:
    low, high = _RANGES[name]
    if type(value) is int and low <= value <= high:
        return None
    return f"{name} is {value!r:.60}, expected an integer from {low} to {high}"
