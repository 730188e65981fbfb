"""Measures what something costs, so that two runs agree: bytes, calls, CPU time of this thread."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

_PACKAGES: Final = ("annotations", "slurmapi", "groundwork", "scheduler")
_UNDER_TEST: Final = [
    *(tracemalloc.Filter(True, f"*/{package}/*") for package in _PACKAGES),
    tracemalloc.Filter(False, "*/sandbox/*"),
]


@dataclass(slots=True)
class Cost:
    """Bytes of Python's allocations: the most at one moment, of all threads, and what code under
    test has left at the end.
    """

    peak_bytes: int = 0
    kept_bytes: int = 0


@contextmanager
def measured() -> Iterator[Cost]:
    """The cost of the block, known once it is left."""
    cost = Cost()
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield cost
    finally:
        cost.kept_bytes = kept_bytes()
        cost.peak_bytes = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()


def kept_bytes() -> int:
    """What lines of the packages under test have allocated since tracemalloc was started, and still
    hold. A sandbox of another test may run in a thread of the same process: it does not count.
    """
    gc.collect()
    found = tracemalloc.take_snapshot().filter_traces(_UNDER_TEST)
    return sum(it.size for it in found.statistics("filename"))


@contextmanager
def cpu_seconds() -> Iterator[list[float]]:
    """The CPU time that this thread spends in the block, as the one item of the list."""
    spent: list[float] = []
    began = time.thread_time()
    try:
        yield spent
    finally:
        spent.append(time.thread_time() - began)


@contextmanager
def calls() -> Iterator[list[int]]:
    """How many calls of Python functions this thread makes in the block, as the one item of the
    list. Two runs make the same, on any machine.
    """
    made = 0

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal made
        made += event == "call"

    found: list[int] = []
    former = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(former)
        found.append(made)
