"""Where a waiting pod stands among those of its partition: the answer of the scheduler's page.

`page/queue_places.py` makes it, and `page_client.py` asks for it. In JSON the fields are named in
Kubernetes' manner. docs/queue.md describes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from scheduler.view.row import Row

MOST_QUEUE_PLACES: Final = 2000
"""How many pods one answer has; `continue` names the last one, to go on behind it."""

_Count = Annotated[int, Meta(ge=1, lt=2**53)]


class QueuePlace(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The pod's job is the `place`th of those that wait for the partition: `of` jobs of pods of
    this scheduler. The first is 1.
    """

    uid: str
    partition: str
    place: _Count
    of: _Count


class PlacesTold(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The places of waiting pods, sorted by uid."""

    items: tuple[QueuePlace, ...] = ()
    continue_: str = msgspec.field(name="continue", default="")


def with_places(rows: Iterable[Row], places: Mapping[str, QueuePlace]) -> Iterator[Row]:
    """The rows; those whose uid has a place have it as words, such as 3/17."""
    for row in rows:
        found = places.get(row.uid)
        yield row if found is None else replace(row, place=f"{found.place}/{found.of}")
