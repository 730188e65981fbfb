"""Which rows are shown, and in which order, as the command line says."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from scheduler.view.row import CODES, IN_QUEUE, Row, State
from scheduler.view.safe_text import shown

_PLACES: Final = {state: place for place, state in enumerate(State)}
_ALL: Final = "all"
# Any: what a column is compared by; None and "" are not known, and stand last in either direction.
_SORTS: Final[Mapping[str, Callable[[Row], Any]]] = {
    "namespace": lambda row: row.namespace,
    "name": lambda row: row.name,
    "user": lambda row: row.user,
    "state": lambda row: _PLACES[row.state],
    "reason": lambda row: row.reason,
    "job": lambda row: row.job,
    "partition": lambda row: row.partition,
    "account": lambda row: row.account,
    "qos": lambda row: row.qos,
    "priority": lambda row: row.priority,
    "age": lambda row: None if row.created is None else -row.created.timestamp(),
    "cpus": lambda row: row.cpus,
    "memory": lambda row: row.memory_bytes,
    "gpus": lambda row: row.gpus,
    "node": lambda row: row.node,
}
SORT_NAMES: Final = ", ".join(_SORTS)
FIRST_ORDER: Final = "state,-priority,-age"
_TIES: Final = (("namespace", False), ("name", False))

Order = tuple[tuple[str, bool], ...]
"""Columns to sort by, and whether each is descending."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows of these states, and of these partitions if any are named."""

    states: frozenset[State] = IN_QUEUE
    partitions: frozenset[str] = frozenset()

    def takes(self, row: Row | None) -> bool:
        """Whether the row is shown. A pod that asks for several partitions is in each of them."""
        if row is None or row.state not in self.states:
            return False
        return not self.partitions or not self.partitions.isdisjoint(row.partition.split(","))


def states(text: str) -> frozenset[State]:
    """The states that a comma-separated text names, by squeue's long or short names."""
    if text.strip().lower() == _ALL:
        return frozenset(State)
    return frozenset(_state_named(word.strip()) for word in text.split(","))


def _state_named(word: str) -> State:
    name = word.upper()
    if name in CODES:
        return CODES[name]
    if name in set(State) - {State.GONE}:
        return State(name)
    known = ", ".join(
        [*(f"{state} ({code})" for code, state in CODES.items()), State.UNKNOWN, _ALL]
    )
    raise argparse.ArgumentTypeError(f"'{shown(word)}': expected one of {known}")


def partition_names(text: str) -> frozenset[str]:
    """The partitions that a comma-separated text names."""
    return frozenset(filter(None, (word.strip() for word in text.split(","))))


def order(text: str) -> Order:
    """The columns to sort by, of a comma-separated text; a minus in front means descending."""
    return tuple(_column(word.strip()) for word in text.split(","))


def _column(word: str) -> tuple[str, bool]:
    name = word.removeprefix("-").lower()
    if name not in _SORTS:
        raise argparse.ArgumentTypeError(f"'{shown(word)}': expected some of {SORT_NAMES}")
    return name, word.startswith("-")


def ordered(rows: Iterable[Row], by: Order) -> Sequence[Row]:
    """The rows in this order; rows that are equal in it, by namespace and name."""
    found = list(rows)
    for name, descending in reversed((*by, *_TIES)):
        value = _SORTS[name]
        known = [row for row in found if value(row) not in {None, ""}]
        unknown = [row for row in found if value(row) in {None, ""}]
        found = sorted(known, key=value, reverse=descending) + unknown
    return found
