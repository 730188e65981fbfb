"""Notes about the values of SUNK's and slurm-bridge's charts, and about arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from annotations import Problem
from scheduler.migrate.changes import Note, Path, at

_OURS: Final = "--slurm-api-base"
# Names under which any of the three schedulers takes the address.
_ADDRESS_KEYS: Final = {
    *("slurm-api-base", "apiBase", "slurmRestApi", "SLURM_POD_SCHEDULER_SLURM_API_BASE"),
}
_ADDRESS: Final = re.compile(r"https?://[^/]+(?<!:6817)/?|unix:/.+")
_EXPECTED: Final = (
    "the URL of slurmrestd, such as http://slurm-rest:6820: 6817 is the port of slurmctld's own "
    "protocol, which SUNK's scheduler speaks"
)
# Which parts SUNK's `slurm` chart has beside `scheduler`; the chart of this scheduler has none.
_OF_SLURM_CHART: Final = frozenset(
    {"accounting", "compute", "controller", "login", "rest", "slurmConfig", "syncer"}
)
SUNK: Final[Mapping[Path, tuple[object, str]]] = {
    ("rest", "enabled"): (
        True,
        "true: this scheduler talks to slurmrestd, which SUNK leaves off by default since 5.7.0",
    ),
    ("scheduler", "enabled"): (
        False,
        "false, once this scheduler has its name: else both submit a job for each pod",
    ),
}
"""Values that SUNK's own chart needs, and why."""
BRIDGE: Final[Mapping[str, str]] = {
    "schedulerConfig.schedulerName": "--scheduler-name",
    "schedulerConfig.partition": "a policy with defaults: {partition: NAME}",
    "schedulerConfig.mcsLabel": "none: instead of MCS, exclusive keeps jobs of different users "
    "apart",
    "sharedConfig.slurmRestApi": "--slurm-api-base",
    "sharedConfig.slurmJwtSecret": "--slurm-auth-token-file",
    "admission.managedNamespaces": "the label slurm-pod-scheduler/scheduler-name on each of them",
    "admission.managedNamespaceSelector": "the label slurm-pod-scheduler/scheduler-name on the "
    "namespaces that it selects",
    "admission.certManager": "none: there is no webhook",
}
"""Values of slurm-bridge's chart, and what does the same here."""


def about_values(data: Any) -> Iterator[Note]:
    """Notes about a values file of SUNK's or slurm-bridge's chart; none about other documents."""
    if not isinstance(data, Mapping) or "kind" in data:
        return
    if "schedulerConfig" in data or "sharedConfig" in data:
        yield from _of_bridge(data)
    elif "scheduler" in data and not _OF_SLURM_CHART.isdisjoint(data):
        yield from _of_sunk(data)


def _of_sunk(data: Mapping[Any, Any]) -> Iterator[Note]:
    for path, (wanted, expected) in SUNK.items():
        found = at(data, path)
        if found is not wanted:
            yield Note(path, Problem(".".join(map(str, path)), _value_text(found), expected))


def _of_bridge(data: Mapping[Any, Any]) -> Iterator[Note]:
    for name, ours in BRIDGE.items():
        path: Path = tuple(name.split("."))
        found = at(data, path)
        if found not in (None, {}, [], ""):
            yield Note(path, Problem(name, _value_text(found), f"in the values here: {ours}"))


def wrong_addresses(data: Any, path: Path = ()) -> Iterator[Note]:
    """Values and arguments that name slurmctld, or anything but a URL, as slurmrestd."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _address_notes(key, value, (*path, key))
            yield from wrong_addresses(value, (*path, key))
        yield from _variable(data, path)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from _argument(data, index, (*path, index))
            yield from wrong_addresses(value, (*path, index))


def _address_notes(key: object, value: object, path: Path) -> Iterator[Note]:
    if key in _ADDRESS_KEYS and isinstance(value, str):
        yield from _judged(".".join(map(str, path)), value, path)


def _variable(data: Mapping[Any, Any], path: Path) -> Iterator[Note]:
    name, value = data.get("name"), data.get("value")
    if isinstance(name, str) and name in _ADDRESS_KEYS and isinstance(value, str):
        yield from _judged(f"env {name}", value, (*path, "value"))


def _argument(arguments: list[Any], index: int, path: Path) -> Iterator[Note]:
    given = str(arguments[index])
    if given.startswith(f"{_OURS}="):
        yield from _judged(_OURS, given.partition("=")[2], path)
    elif given == _OURS and index + 1 < len(arguments):
        yield from _judged(_OURS, str(arguments[index + 1]), path)


def _judged(name: str, value: str, path: Path) -> Iterator[Note]:
    if value and not value.startswith("$(") and not _ADDRESS.fullmatch(value):
        yield Note(path, Problem(name, value, _EXPECTED))


def _value_text(found: object) -> str:
    if found is None:
        return "not set"
    return str(found).lower() if isinstance(found, bool) else str(found)
