"""Keeps collections of garbage short, however many pods there are.

A full collection looks at every container object that lives. With 9000 waiting pods it held the
event loop up for 150 to 400 ms, about every 25 s, and found next to nothing (measured). Therefore
what has survived is set aside once a second, and full collections no longer look at it. Its memory
is still freed with the last reference to it. Only objects that refer to each other in a circle, and
were in use when they were set aside, are not: all are looked at again when many more objects are
set aside than after the last time. So memory that is lost to such circles is bounded.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, Final

_EVERY_SECONDS: Final = 1.0
# Everything is looked at again when more than twice as many objects, and these, are set aside as
# after the last time. An object is 100 to 200 bytes.
MORE_OBJECTS: Final = 500_000
_FACTOR: Final = 2
_YOUNG: Final = 1
# Python collects after 700 new objects, and that took 4 % of the CPU time of a burst. Most of these
# objects belong to requests that are under way, and are gone when those end.
_YOUNG_OBJECTS: Final = 10_000


async def tended(work: Coroutine[Any, Any, None]) -> None:
    """Await this work, and keep collections short all the while."""
    tending = asyncio.create_task(_tend_for_ever(), name="garbage")
    try:
        await work
    finally:
        tending.cancel()


async def _tend_for_ever() -> None:
    tender = GarbageTender()
    while True:
        tender.tend()
        await asyncio.sleep(_EVERY_SECONDS)


class GarbageTender:
    """Sets aside at once what lives already, such as what the imports made."""

    def __init__(self) -> None:
        gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
        self._new = self._counted = self._kept = 0
        self._set_all_aside()

    def tend(self) -> None:
        """Free the young garbage, and set aside what is left."""
        gc.collect(_YOUNG)
        self._new += len(gc.get_objects(generation=2))
        gc.freeze()
        limit = _FACTOR * self._kept + MORE_OBJECTS
        # To count the objects takes 10 to 50 ms for a million. So it is done only if there may be
        # too many: those of the last count, and all that have come since. The minimum of new ones
        # keeps growth that is near the limit from a count each second.
        if self._new > MORE_OBJECTS and self._counted + self._new > limit and self._count() > limit:
            gc.unfreeze()
            self._set_all_aside()

    def _count(self) -> int:
        """How many objects are set aside."""
        self._new, self._counted = 0, gc.get_freeze_count()
        return self._counted

    def _set_all_aside(self) -> None:
        gc.collect()
        gc.freeze()
        self._kept = self._count()
