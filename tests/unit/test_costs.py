"""What the tests count as the cost of a block does not depend on what ran before it."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.costs import calls, calls_by_step, measured


class _Circle:
    """Garbage that only the collector finds, and that has something to say when it goes."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        _farewell()


def _farewell() -> None: ...


def _cost() -> int:
    with calls() as made:
        kept = [[number] for number in range(10 * gc.get_threshold()[0])]
    assert kept
    return made[0]


def test_garbage_of_others_makes_no_call_in_the_block() -> None:
    gc.collect()
    clean = _cost()
    _Circle()
    assert _cost() == clean
    assert gc.isenabled()


async def test_comparisons_of_timers_are_not_counted() -> None:
    loop, counted = asyncio.get_running_loop(), list[int]()
    for times in (range(100), range(100, 0, -1)):  # at the end of the heap; at its top each time
        with calls() as made:
            timers = [loop.call_later(60 + it, _farewell) for it in times]
        counted += made
        for timer in timers:
            timer.cancel()
    assert counted[0] == counted[1]


def test_steps_are_counted_one_by_one_with_one_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    collections = 0

    def collect() -> None:
        nonlocal collections
        collections += 1

    def steps() -> Iterator[None]:
        for number in range(5):
            for _ in range(10 * number):
                _farewell()
            yield

    monkeypatch.setattr(gc, "collect", collect)
    first, *later, last = calls_by_step(steps())
    assert [it - first for it in later] == [10, 20, 30, 40]
    assert last == first
    assert (collections, gc.isenabled()) == (1, True)


def test_bytes_of_other_threads_do_not_count() -> None:
    over = threading.Event()

    def allocate() -> None:
        while not over.is_set():
            assert bytes(1_000_000)
            time.sleep(0)

    thread = threading.Thread(target=allocate)
    thread.start()
    try:
        with measured() as cost:
            until = time.thread_time() + 0.05  # some turns of the other thread, if it had any
            while time.thread_time() < until:
                pass
    finally:
        over.set()
        thread.join(60)
    assert cost.peak_bytes < 500_000
