"""The forms in which rows are shown: for people as a table, for programs as JSON, YAML or names."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from scheduler.view.printing import as_json, as_name, as_object, as_yaml
from scheduler.view.row import Row
from scheduler.view.table import (
    COLUMNS,
    GANG_COLUMN,
    NAMESPACE_COLUMN,
    PLACE_COLUMN,
    PODS_COLUMN,
    RANK_COLUMN,
    USER_COLUMN,
    WIDE_COLUMNS,
    Table,
)

FORMS: Final = ("table", "wide", "json", "yaml", "name")
TABLES: Final = frozenset({"table", "wide"})


def repaints(form: str) -> bool:
    """Whether a watch repaints the terminal: only where there is one, and only a table."""
    return sys.stdout is not None and sys.stdout.isatty() and form in TABLES


class Output:
    """Rows in one form. With `namespaces`, tables have a column for the namespace, with `users` one
    for the users of Slurm's jobs, and with `places` one for the place in the queue. With `gangs`, a
    row may stand for several pods.
    """

    def __init__(
        self, form: str, *, namespaces: bool, gangs: bool, places: bool, users: bool
    ) -> None:
        self._form = form
        self._terminal = sys.stdout.isatty()
        first = (NAMESPACE_COLUMN,) if namespaces else ()
        name, *others = COLUMNS
        of_gang = (PODS_COLUMN,) if gangs else (GANG_COLUMN, RANK_COLUMN) if form == "wide" else ()
        user = (USER_COLUMN,) if users else ()
        place = (PLACE_COLUMN,) if places else ()
        more = WIDE_COLUMNS if form == "wide" else ()
        self._columns = (*first, name, *user, *of_gang, *others, *place, *more)
        self._table = self._new_table()

    def whole(self, rows: Sequence[Row]) -> str:
        """All rows. A table without rows is empty."""
        if self._form == "json":
            return as_json({"items": [as_object(row) for row in rows]}, indent=2)
        if self._form == "yaml":
            return as_yaml({"items": [as_object(row) for row in rows]})
        return self.each(rows, heading=True) if rows else ""

    def each(self, rows: Sequence[Row], *, heading: bool = False) -> str:
        """One part for each row, so that more can follow: a line, or a document of YAML."""
        match self._form:
            case "json":
                return "".join(as_json(as_object(row)) for row in rows)
            case "yaml":
                return "".join("---\n" + as_yaml(as_object(row)) for row in rows)
            case "name":
                return "".join(map(as_name, rows))
            case _:
                return _as_lines(self._table.lines(rows, datetime.now(UTC), heading=heading))

    def painting(self, rows: Sequence[Row]) -> str:
        """A new table with as many rows as the terminal has room for."""
        room = max(1, shutil.get_terminal_size().lines - 3)
        more = [f"and {len(rows) - room} more"] if len(rows) > room else []
        lines = self._new_table().lines(rows[:room], datetime.now(UTC))
        return _as_lines(lines + more)

    def _new_table(self) -> Table:
        most = shutil.get_terminal_size().columns if self._terminal else None
        colour = self._terminal and not os.environ.get("NO_COLOR")
        return Table(self._columns, most=most, colour=colour)


def _as_lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
