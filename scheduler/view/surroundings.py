"""What the scheduler's page adds to the story of a pod that waits: its place in the queue, and what
its partition has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from scheduler.view import page_client
from scheduler.view.connection import ViewError
from scheduler.view.page_address import PageAddress
from scheduler.view.page_client import NotAnswered
from scheduler.view.partition_row import PartitionRow
from scheduler.view.partition_table import PARTITION_COLUMNS
from scheduler.view.queue_place import QueuePlace
from scheduler.view.row import Row
from scheduler.view.table import UNKNOWN


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`place` and `partition` are None if the page does not know them. `unread` says what it did
    not answer.
    """

    place: QueuePlace | None = None
    partition: PartitionRow | None = None
    unread: tuple[str, ...] = ()


NOTHING_SAID: Final = Surroundings()


async def surroundings(page: PageAddress, row: Row, *, token: str) -> Surroundings:
    """What the page says about a pod that waits."""
    try:
        places = await page_client.ask_places(page, token=token, namespace=row.namespace)
        partitions = await page_client.ask_partitions(page, token=token, namespace=row.namespace)
    except ViewError as error:
        return Surroundings(unread=(str(error),))
    whys = [it.why for it in (places, partitions) if isinstance(it, NotAnswered)]
    place = partition = None
    if not isinstance(places, NotAnswered):
        place = next((it for it in places.items if it.uid == row.uid), None)
    if not isinstance(partitions, NotAnswered):
        name = row.partition if place is None else place.partition
        partition = next((it for it in partitions.items if _is_of(it, name)), None)
    return Surroundings(place, partition, tuple(whys[:1]))


def _is_of(row: PartitionRow, name: str) -> bool:
    return row.name == name if name else row.default is True


def room_lines(found: Surroundings) -> list[tuple[str, str]]:
    """What there is, each with a word in front of it."""
    lines = []
    place, row = found.place, found.partition
    if place is not None:
        of = f"{place.place} of the {place.of} waiting jobs of this scheduler"
        lines.append(("place", f"{of} in partition {place.partition}"))
    if row is not None:
        state = "" if row.state in {"", "UP"} else f", which is {row.state}"
        lines += [
            ("partition", row.name + state),
            ("largest node", PARTITION_COLUMNS["NODE"](row) or UNKNOWN),
            ("free GPUs", PARTITION_COLUMNS["GPUS(F/T)"](row) or UNKNOWN),
            ("room now", PARTITION_COLUMNS["POD-NOW"](row) or UNKNOWN),
        ]
    return lines


def room_object(found: Surroundings) -> dict[str, Any]:
    """The same for programs."""
    return {
        "place": msgspec.to_builtins(found.place),
        "partition": msgspec.to_builtins(found.partition),
    }
