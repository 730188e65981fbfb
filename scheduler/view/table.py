"""Rows as a table that is never wider than the terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scheduler.view.row import Row, State
from scheduler.view.safe_text import cut, shown, width

UNKNOWN: Final = "-"
_GAP: Final = "  "
_NARROWEST: Final = 6
_GIB: Final = 1 << 30
_MIB: Final = 1 << 20
_COLOURS: Final = {
    State.PENDING: "\x1b[33m",
    State.CONFIGURING: "\x1b[36m",
    State.RUNNING: "\x1b[32m",
    State.COMPLETING: "\x1b[35m",
    State.FAILED: "\x1b[31m",
}
_PLAIN: Final = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, and the text of a row at a time. Numbers stand to the right; texts may
    be cut.
    """

    heading: str
    cell: Callable[[Row, datetime], str]
    number: bool = False


NAMESPACE_COLUMN: Final = Column("NAMESPACE", lambda row, _: row.namespace)
COLUMNS: Final = (
    Column("NAME", lambda row, _: row.name),
    Column("STATE", lambda row, _: row.state.value),
    Column("REASON", lambda row, _: row.reason),
    Column("JOB", lambda row, _: _number_cell(row.job), number=True),
    Column("PARTITION", lambda row, _: row.partition),
    Column("QOS", lambda row, _: row.qos),
    Column("PRIORITY", lambda row, _: _number_cell(row.priority), number=True),
    Column("AGE", lambda row, now: _since(row.created, now), number=True),
    Column("CPUS", lambda row, _: str(row.cpus), number=True),
    Column("MEMORY", lambda row, _: memory(row.memory_bytes), number=True),
    Column("GPUS", lambda row, _: str(row.gpus), number=True),
    Column("NODE", lambda row, _: row.node),
)
USER_COLUMN: Final = Column("USER", lambda row, _: row.user)
PLACE_COLUMN: Final = Column("PLACE", lambda row, _: row.place, number=True)
GANG_COLUMN: Final = Column(
    "GANG", lambda row, _: "" if row.gang.gang is None else row.gang.gang.name
)
RANK_COLUMN: Final = Column("RANK", lambda row, _: _rank(row))
PODS_COLUMN: Final = Column("PODS", lambda row, _: _pods(row))
WIDE_COLUMNS: Final = (
    Column("ACCOUNT", lambda row, _: row.account),
    Column("START", lambda row, now: _until(row.expected_start, now), number=True),
    Column("LEFT", lambda row, now: _until(row.ends_at, now), number=True),
    Column("MESSAGE", lambda row, _: row.message),
)


class Table:
    """Lines of one table. Columns keep at least the width that they had before, so that lines that
    are added later stand below the first ones. `most` is the width of the terminal; None is no
    limit.
    """

    def __init__(self, columns: Sequence[Column], *, most: int | None, colour: bool) -> None:
        self._columns = columns
        self._most = most
        self._colour = colour
        self._natural = [width(it.heading) for it in columns]

    def lines(self, rows: Iterable[Row], now: datetime, *, heading: bool = True) -> list[str]:
        """The heading and a line for each row."""
        found = [(row.state, [_cell(it, row, now) for it in self._columns]) for row in rows]
        for _, cells in found:
            self._natural = [max(a, width(b)) for a, b in zip(self._natural, cells, strict=True)]
        widths = self._fitted(self._places([cells for _, cells in found]))
        painted = [self._painted(self._line(cells, widths), state) for state, cells in found]
        first = [self._line([it.heading for it in self._columns], widths)] if heading else []
        return first + painted

    def _places(self, table: list[list[str]]) -> list[int]:
        """Which columns are shown: all if they fit, else those in which any row has something."""
        places = list(range(len(self._columns)))
        if self._room(places) >= 0:
            return places
        return [it for it in places if any(cells[it] != UNKNOWN for cells in table)] or places

    def _room(self, places: Collection[int]) -> int:
        """How much wider these columns could be; negative if they are too wide."""
        if self._most is None:
            return 0
        gaps = len(_GAP) * (len(places) - 1)
        return self._most - gaps - sum(self._natural[place] for place in places)

    def _fitted(self, places: Sequence[int]) -> dict[int, int]:
        """The width of each of these columns. If all are too wide, the widest of the texts give way
        first.
        """
        widths = {place: self._natural[place] for place in places}
        columns = {place: self._columns[place] for place in places}
        texts = [it for it, of in columns.items() if not of.number and of.heading != "STATE"]
        for _ in range(-self._room(places)):
            widest = max(texts, key=lambda place: widths[place], default=None)
            if widest is None or widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _line(self, cells: Sequence[str], widths: Mapping[int, int]) -> str:
        parts = (
            _filled(cut(cells[place], size), size, right=self._columns[place].number)
            for place, size in widths.items()
        )
        line = _GAP.join(parts).rstrip()
        return line if self._most is None else cut(line, self._most)

    def _painted(self, line: str, state: State) -> str:
        colour = _COLOURS.get(state, "") if self._colour else ""
        if not colour:
            return line
        # Names of objects have no upper-case letters, so what is found first is the state. A native
        # job of such a name gets the colour there.
        return line.replace(f"{_GAP}{state}", f"{_GAP}{colour}{state}{_PLAIN}", 1)


def _cell(column: Column, row: Row, now: datetime) -> str:
    return shown(column.cell(row, now)) or UNKNOWN


def _filled(text: str, size: int, *, right: bool) -> str:
    space = " " * (size - width(text))
    return space + text if right else text + space


def _number_cell(value: int | None) -> str:
    return "" if value is None else str(value)


def _rank(row: Row) -> str:
    """The pod's rank and the gang's size, such as 3/8."""
    gang = row.gang.gang
    if gang is None or (gang.rank is None and gang.size is None):
        return ""
    return "/".join(UNKNOWN if it is None else str(it) for it in (gang.rank, gang.size))


def _pods(row: Row) -> str:
    """How many pods have a Node, and how many there are to be."""
    gang = row.gang.gang
    if gang is None:
        return ""
    size = gang.size or len(row.pods)
    return f"{sum(bool(it.node) for it in row.pods)}/{size}"


def memory(amount: int) -> str:
    """An amount of memory as people write it: 0, 512Mi, 32Gi, 1.5Gi."""
    if not amount:
        return "0"
    if amount < _GIB:
        return f"{-(-amount // _MIB)}Mi"
    return f"{amount / _GIB:.1f}".removesuffix(".0") + "Gi"


def _since(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else duration((now - moment).total_seconds())


def _until(moment: datetime | None, now: datetime) -> str:
    return "" if moment is None else duration((moment - now).total_seconds())


def duration(seconds: float) -> str:
    """A time in its largest fitting unit: 90s, 45m, 30h, 12d. Clocks that differ make no negative
    times.
    """
    whole = max(0, int(seconds))
    for size, unit, most in ((1, "s", 120), (60, "m", 120), (3600, "h", 48)):
        if whole < most * size:
            return f"{whole // size}{unit}"
    return f"{whole // 86400}d"
