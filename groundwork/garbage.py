"""Keeps collections of garbage short, however many pods there are.

A full collection looks at every container object that lives. With 9000 waiting pods it held the
event loop up for 150 to 400 ms, about every 25 s, and found next to nothing (measured). Therefore
what has survived is set aside four times a second, and full collections no longer look at it. Its
memory is still freed with the last reference to it. Only objects that refer to each other in a
circle, and were in use when they were set aside, are not. All are looked at again when there is
much more memory in use than after the last time, and more Kubernetes objects do not explain it. So
memory that is lost to such circles is bounded, and many pods alone cause no full collection: with
30 000 it took 570 ms (measured).
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

# Once a second, with 100 new pods each second, it took 20 to 33 ms (measured).
_EVERY_SECONDS: Final = 0.25
# Everything is looked at again when more than twice as many blocks of memory, and these, are in use
# as after the last time. A block is 50 to 100 bytes.
MORE_BLOCKS: Final = 1_000_000
_FACTOR: Final = 2
# What a Kubernetes object may take beyond that. A waiting pod takes 110 blocks (measured).
BLOCKS_OF_AN_OBJECT: Final = 400
_YOUNG: Final = 1
# Python collects after 700 new objects, and that took 4 % of the CPU time of a burst. Most of these
# objects belong to requests that are under way, and are gone when those end.
_YOUNG_OBJECTS: Final = 10_000


async def tended(work: Coroutine[Any, Any, None], *, objects: Callable[[], int]) -> None:
    """Await this work, and keep collections short all the while. `objects` says how many objects of
    Kubernetes are kept.
    """
    tending = asyncio.create_task(_tend_for_ever(objects), name="garbage")
    try:
        await work
    finally:
        tending.cancel()


async def _tend_for_ever(objects: Callable[[], int]) -> None:
    tender = GarbageTender(objects)
    while True:
        tender.tend()
        await asyncio.sleep(_EVERY_SECONDS)


class GarbageTender:
    """Sets aside at once what lives already, such as what the imports made."""

    def __init__(self, objects: Callable[[], int]) -> None:
        self._objects = objects
        gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])
        # Without a collection: after the imports it took 40 ms and freed 345 of 500 000 blocks
        # (measured).
        self._set_aside()

    def tend(self) -> None:
        """Free the young garbage, and set aside what is left."""
        gc.collect(_YOUNG)
        more = max(0, self._objects() - self._objects_then)
        limit = _FACTOR * self._blocks_then + MORE_BLOCKS + more * BLOCKS_OF_AN_OBJECT
        # Python counts its blocks by the pools in which they lie: 28 million in 2 ms.
        if sys.getallocatedblocks() > limit:
            gc.unfreeze()
            gc.collect()
            self._set_aside()
        else:
            gc.freeze()

    def _set_aside(self) -> None:
        gc.freeze()
        self._blocks_then = sys.getallocatedblocks()
        self._objects_then = self._objects()
