"""Other tasks run during a long loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import thread_time

from groundwork.pauses import in_chunks, in_slices, with_pauses
from tests.support.loop_turns import beside


async def test_other_tasks_get_a_turn_after_so_many_items() -> None:
    order = list[int | str]()

    async def other() -> None:
        while True:
            order.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    async for item in with_pauses(range(5), every=2):
        order.append(item)
    task.cancel()
    assert order == [0, 1, "other", 2, 3, "other", 4]


async def test_items_are_taken_only_when_their_turn_comes() -> None:
    taken = list[int]()

    def items() -> Iterator[int]:
        for number in range(3):
            taken.append(number)
            yield number

    async for item in with_pauses(items(), every=1):
        assert taken == list(range(item + 1))
    assert taken == [0, 1, 2]


async def test_other_tasks_get_a_turn_after_so_much_cpu_time() -> None:
    async with beside() as turns:
        async for _ in in_slices(range(100), seconds=10.0):
            pass
        assert turns.count == 0, "they cost next to nothing"
        async for _ in in_slices(range(3), seconds=0.002):
            until = thread_time() + 0.003
            while thread_time() < until:
                pass
    assert turns.count == 3


async def test_other_tasks_get_a_turn_between_two_parts() -> None:
    items, parts, seen = [1, 2, 3, 4, 5], list[tuple[int, ...]](), list[int]()
    async with beside() as turns:
        async for part in in_chunks(items, size=2):
            items.append(9)  # it goes through the items as they were
            parts.append(tuple(part))
            seen.append(turns.count)
    assert parts == [(1, 2), (3, 4), (5,)]
    assert seen == [0, 1, 2]


async def test_single_part_takes_no_turn() -> None:
    async with beside() as turns:
        assert [part async for part in in_chunks(range(2), size=2)] == [(0, 1)]
        assert turns.count == 0
