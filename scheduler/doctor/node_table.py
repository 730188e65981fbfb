"""The rows of nodes as a table. docs/nodes-command.md describes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from scheduler.doctor.node_rows import Amount, NodeRow

_GIB: Final = 1024
_UNKNOWN: Final = "-"
_GAP: Final = "  "
_COLUMNS: Final[dict[str, Callable[[NodeRow], str]]] = {
    "NAME": lambda row: row.name,
    "SLURM": lambda row: "+".join(row.states),
    "NODE": lambda row: row.node,
    "KUBERNETES": lambda row: row.ready,
    "CPUS(P/J/F/T)": lambda row: _shares_text(row.cpus),
    "GIB(P/J/F/T)": lambda row: _shares_text(row.memory_mib, unit=_GIB),
    "GPUS(P/J/F/T)": lambda row: _shares_text(row.gpus),
    "REFUSED": lambda row: "; ".join(row.refused),
}


def node_table(rows: Sequence[NodeRow]) -> str:
    """A heading, and a line for each node."""
    cells = [[cell(row) or _UNKNOWN for cell in _COLUMNS.values()] for row in rows]
    lines = [list(_COLUMNS), *cells]
    sizes = [max(len(line[at]) for line in lines) for at in range(len(_COLUMNS))]
    return "".join(
        _GAP.join(cell.ljust(size) for cell, size in zip(line, sizes, strict=True)).rstrip() + "\n"
        for line in lines
    )


def _shares_text(amount: Amount, *, unit: int = 1) -> str:
    parts = (amount.pods, amount.jobs, amount.free, amount.total)
    return "/".join(f"{it / unit:.0f}" for it in parts)
