"""What the pods of a namespace show of partitions, for those who reach no scheduler."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

from scheduler.kube.clip import clipped
from scheduler.view.partition_row import LONGEST_TEXT, PartitionRow, PartitionsTold
from scheduler.view.row import IN_QUEUE, Row, State

MOST_PARTITIONS: Final = 1000
_NOTE: Final = (
    "from the pods of the namespace alone: there may be other partitions, and neither sizes and "
    "limits nor what is free are known"
)


def partitions_of(rows: Iterable[Row], namespace: str) -> PartitionsTold:
    """The partitions that these pods name or that Slurm names on them, and how many pods there
    are.
    """
    counts: defaultdict[str, Counter[bool]] = defaultdict(Counter)
    for row in rows:
        if row.state not in IN_QUEUE:
            continue
        for name in filter(None, row.partition.split(",")):
            if name in counts or len(counts) < MOST_PARTITIONS:
                counts[name][row.state is State.PENDING] += 1
    return PartitionsTold(
        namespace=namespace,
        source="pods",
        items=tuple(_partition_row(name, counts[name]) for name in sorted(counts)),
        notes=(_NOTE,),
    )


def _partition_row(name: str, count: Counter[bool]) -> PartitionRow:
    note = f"pods of this namespace: {count[False]} with a Node, {count[True]} that wait"
    return PartitionRow(name=clipped(name, LONGEST_TEXT), notes=(note,))
