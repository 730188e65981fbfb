"""Partitions as a table. docs/partitions.md describes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from scheduler.view.partition_row import PartitionRow, SizeTold
from scheduler.view.safe_text import cut, shown, width
from scheduler.view.table import UNKNOWN, memory

_GAP: Final = "  "
_MIB: Final = 1 << 20
_MOST_TYPES: Final = 4
_Cell = Callable[[PartitionRow], str]


def _line(cells: Sequence[tuple[str, int]], most: int | None) -> str:
    line = _GAP.join(text + " " * (size - width(text)) for text, size in cells).rstrip()
    return (line if most is None else cut(line, most)) + "\n"


def _yes(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def _time(row: PartitionRow) -> str:
    """The longest time, exactly, in its largest unit."""
    if row.time_limited is False:
        return "unlimited"
    seconds = row.max_seconds
    if seconds is None:
        return ""
    sizes = ((86400, "d"), (3600, "h"), (60, "m"))
    return next(
        (f"{seconds // it}{unit}" for it, unit in sizes if seconds % it == 0), f"{seconds}s"
    )


def _size_text(shape: SizeTold) -> str:
    """Such as 64cpu,256Gi,8xh100."""
    types = [f"{count}x{name or 'gpu'}" for name, count in shape.gpus.items() if count]
    more = [f"+{len(types) - _MOST_TYPES}"] if len(types) > _MOST_TYPES else []
    amounts = [f"{shape.cpus}cpu", memory(shape.memory_mib * _MIB)]
    return ",".join([*amounts, *types[:_MOST_TYPES], *more])


def _node_cell(row: PartitionRow) -> str:
    """The largest kind of nodes, and how many other kinds there are."""
    if not row.kinds:
        return ""
    others = len(row.kinds) - 1
    return _size_text(row.kinds[0].shape) + (f"(+{others})" if others else "")


def _gpus_cell(row: PartitionRow) -> str:
    found = [f"{name or 'gpu'}:{it.free}/{it.total}" for name, it in row.gpus.items()]
    more = [f"+{len(found) - _MOST_TYPES}"] if len(found) > _MOST_TYPES else []
    return ",".join(found[:_MOST_TYPES] + more)


def _pod_now(row: PartitionRow) -> str:
    if row.now:
        return ";".join(map(_size_text, row.now))
    return "" if row.nodes is None else "none"


def _gang_now(row: PartitionRow) -> str:
    kind = row.gang
    if kind is not None and kind.room is not None and row.now:
        return f"{kind.gang}*{_size_text(kind.room)}"
    return "" if row.nodes is None else "none"


PARTITION_COLUMNS: Final[Mapping[str, _Cell]] = {
    "NAME": lambda row: row.name,
    "STATE": lambda row: row.state,
    "DEFAULT": lambda row: _yes(row.default),
    "ALLOWED": lambda row: _yes(row.allowed),
    "TIME": _time,
    "NODES": lambda row: "" if row.nodes is None else f"{row.usable}/{row.nodes}",
    "NODE": _node_cell,
    "GPUS(F/T)": _gpus_cell,
    "POD-NOW": _pod_now,
    "GANG-NOW": _gang_now,
}
WIDE_PARTITION_COLUMNS: Final[Mapping[str, _Cell]] = {
    "LIMITS": lambda row: "; ".join(row.limits),
    "NOTES": lambda row: "; ".join(row.notes),
}


def partition_table(rows: Sequence[PartitionRow], *, wide: bool, most: int | None) -> str:
    """A heading and a line for each row, none of them wider than `most` columns. With too little
    room, columns in which no row has anything are left out first.
    """
    columns = {**PARTITION_COLUMNS, **(WIDE_PARTITION_COLUMNS if wide else {})}
    cells = [[shown(cell(row)) or UNKNOWN for cell in columns.values()] for row in rows]
    lines = [list(columns), *cells]
    sizes = [max(width(line[at]) for line in lines) for at in range(len(columns))]
    places = list(range(len(columns)))
    if most is not None and sum(sizes) + len(_GAP) * (len(sizes) - 1) > most:
        places = [at for at in places if any(line[at] != UNKNOWN for line in cells)]
    return "".join(_line([(line[at], sizes[at]) for at in places], most) for line in lines)
