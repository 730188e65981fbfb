"""What slurm-bridge's annotations become here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from annotations import Problem
from annotations.quantity import divide_up

PREFIX: Final = "slurmjob.slinky.slurm.net/"
SCHEDULER: Final = "slurm-bridge-scheduler"
WRITTEN: Final = ("scheduler.slinky.slurm.net/slurm-jobid", "slinky.slurm.net/slurm-node")
"""Keys that slurm-bridge writes on pods."""
WHOLE_NODE: Final = ("exclusive", "whole-node")
_SHARED_NODE: Final = ("exclusive", "false")

_FROM_REQUESTS: Final = "no such annotation: it follows from the containers' requests"
_ONE_NODE: Final = (
    "no such annotation: a pod is on one node, and the nodes of a gang follow from its pods"
)
_JOB_NAME: Final = (
    "no such annotation: the job is called <namespace>.<pod>.<uid>, which prevents a second job "
    "for the pod"
)
_TIME: Final = "minutes, a number with the unit s, m, h, d or w, or a time as sbatch takes it"
_MINUTE: Final = 60
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WITH_UNIT: Final = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)
_SBATCH: Final = re.compile(
    r"(?:(?P<d>[0-9]{1,6})-(?P<h>[0-9]{1,9})(?::(?P<m>[0-9]{1,9})(?::(?P<s>[0-9]{1,9}))?)?"
    r"|(?:(?P<hours>[0-9]{1,9}):(?=[0-9]+:))?(?P<minutes>[0-9]{1,9})(?::(?P<seconds>[0-9]{1,9}))?)",
    re.ASCII,
)


class Counterpart(NamedTuple):
    """`ours` is the annotation here; None if there is none, and then `expected` says why."""

    ours: str | None
    expected: str = ""


ROWS: Final[Mapping[str, Counterpart]] = {
    "account": Counterpart("account"),
    "constraints": Counterpart("constraints"),
    "cpu-per-task": Counterpart(None, _FROM_REQUESTS),
    "exclusive": Counterpart("exclusive"),
    "gres": Counterpart("gres"),
    "group-id": Counterpart("group-id"),
    "job-name": Counterpart(None, _JOB_NAME),
    "licenses": Counterpart("licenses"),
    "max-nodes": Counterpart(None, _ONE_NODE),
    "mem-per-node": Counterpart(None, _FROM_REQUESTS),
    "min-nodes": Counterpart(None, _ONE_NODE),
    "partition": Counterpart("partition"),
    "priority": Counterpart("priority"),
    "qos": Counterpart("qos"),
    "reservation": Counterpart("reservation"),
    "timelimit": Counterpart("timeout"),
    "user-id": Counterpart("user-id"),
    "wckey": Counterpart("wckey"),
}
"""All annotations of slurm-bridge 1.3."""


def translated(name: str, value: str) -> tuple[str, str] | Problem | None:
    """The annotation and value here; None if ours is the default; or why there is none."""
    field = f"{PREFIX}{name}"
    row = ROWS.get(name)
    if row is None:
        return Problem(field, value, f"an annotation of slurm-bridge: {', '.join(ROWS)}")
    if row.expected == _ONE_NODE and value == "1":
        return None
    if row.ours is None:
        return Problem(field, value, row.expected)
    if name == "exclusive":
        return _SHARED_NODE if value.strip().lower() == "false" else WHOLE_NODE
    if name == "timelimit":
        seconds = _seconds(value)
        return Problem(field, value, _TIME) if seconds is None else (row.ours, str(seconds))
    return row.ours, value


def _seconds(value: str) -> int | None:
    """The time limit in seconds; None if slurm-bridge would not read it. It counts minutes."""
    found = _WITH_UNIT.fullmatch(value)
    if found is not None:
        return _minutes(int(found[1]) * _UNITS[found[2]])
    parts = _SBATCH.fullmatch(value)
    if parts is None:
        return None
    days, hours, minutes, seconds = (
        int(parts[first] or parts[second] or 0)
        for first, second in (("d", "d"), ("h", "hours"), ("m", "minutes"), ("s", "seconds"))
    )
    return _minutes(days * 86_400 + hours * 3600 + minutes * 60 + seconds)


def _minutes(seconds: int) -> int | None:
    return divide_up(seconds, _MINUTE) * _MINUTE or None
