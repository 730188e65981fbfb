"""Measures what a block of code costs: bytes, calls of functions, CPU time of this thread."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

import looptime

_END: Final = object()
_LONG_SECONDS: Final = 60.0
_PACKAGES: Final = ("annotations", "slurmapi", "groundwork", "scheduler")
_COMPARES_TIMERS: Final = asyncio.TimerHandle.__lt__.__code__
_CLOCK_OF_TESTS: Final = os.path.dirname(looptime.__file__)
_UNDER_TEST: Final = [
    *(tracemalloc.Filter(True, f"*/{package}/*") for package in _PACKAGES),
    tracemalloc.Filter(False, "*/sandbox/*"),
]


@dataclass(slots=True)
class Cost:
    """Bytes that Python allocated: the peak, and what the packages under test still hold at the
    end.
    """

    peak_bytes: int = 0
    kept_bytes: int = 0


@contextmanager
def measured() -> Iterator[Cost]:
    """Measures the block, which must wait for nothing; the result is filled in when it ends."""
    cost = Cost()
    gc.collect()
    with _alone():
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        try:
            yield cost
        finally:
            cost.peak_bytes = tracemalloc.get_traced_memory()[1] - before
            cost.kept_bytes = _kept_bytes()
            tracemalloc.stop()


@contextmanager
def _alone() -> Iterator[None]:
    """No other thread runs Python during the block: tracemalloc would count what it allocates."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_LONG_SECONDS)
    time.sleep(0)  # who waits already takes its turn now
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _kept_bytes() -> int:
    """Bytes that the packages under test have allocated since tracemalloc started, and still hold.

    A sandbox of another test may run in a thread of this process; its bytes do not count.
    """
    gc.collect()
    found = tracemalloc.take_snapshot().filter_traces(_UNDER_TEST)
    return sum(it.size for it in found.statistics("filename"))


@contextmanager
def cpu_seconds() -> Iterator[list[float]]:
    """CPU time that this thread spends in the block; it becomes the one item of the list."""
    spent: list[float] = []
    began = time.thread_time()
    try:
        yield spent
    finally:
        spent.append(time.thread_time() - began)


def least_cpu_seconds(work: Callable[[], object], *, tries: int = 5) -> float:
    """CPU time of this thread for `work`: the least of a few tries. A busy machine, or a garbage
    collection of the whole process, makes any single one longer.
    """
    took = []
    for _ in range(tries):
        with cpu_seconds() as spent:
            work()
        took += spent
    return min(took)


@contextmanager
def calls() -> Iterator[list[int]]:
    """Number of Python calls that this thread makes in the block; it becomes the one item of the
    list. The number is the same in every run and on every machine: garbage that other tests have
    left is collected before, and none is in the block, because its finalizers would be counted.
    What the event loop does by chance is not counted.
    """
    with _no_collections(), _counted() as found:
        yield found


def calls_by_step(steps: Iterator[object]) -> list[int]:
    """The same for each step of an iterator; the last one finds its end. Garbage is collected once,
    before the first step: a collection goes through all that the worker's tests hold, which may
    take a second.
    """
    found, more = list[int](), True
    with _no_collections():
        while more:
            with _counted() as made:
                more = next(steps, _END) is not _END
            found += made
    return found


@contextmanager
def _no_collections() -> Iterator[None]:
    collects = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _by_chance(code: CodeType) -> bool:
    """Whether the loop makes this call more or less often by chance: it compares its timers in
    their heap, whose order follows from random pauses, and the clock of the tests counts its steps.
    """
    return code is _COMPARES_TIMERS or code.co_filename.startswith(_CLOCK_OF_TESTS)


@contextmanager
def _counted() -> Iterator[list[int]]:
    made = 0

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal made
        made += event == "call" and not _by_chance(frame.f_code)

    found: list[int] = []
    former = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(former)
        found.append(made)
