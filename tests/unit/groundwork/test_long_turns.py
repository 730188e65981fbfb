"""Long steps of many tasks come one by one, and the lines take turns."""

from __future__ import annotations

import asyncio
from collections import Counter

from groundwork.long_turns import LongTurns


async def test_one_long_step_begins_in_a_turn_of_the_loop() -> None:
    turns, number, begun = LongTurns(), 0, Counter[int]()

    async def count() -> None:
        nonlocal number
        while True:
            number += 1
            await asyncio.sleep(0)

    async def work(line: str) -> None:
        for _ in range(3):
            await turns.next(line)
            begun[number] += 1

    counting = asyncio.create_task(count())
    await asyncio.gather(*(work(f"line {it % 4}") for it in range(20)))
    counting.cancel()
    assert begun.total() == 60
    assert max(begun.values()) == 1


async def test_line_with_many_tasks_delays_another_line_by_one_step() -> None:
    turns, order = LongTurns(), list[str]()

    async def work(line: str) -> None:
        await turns.next(line)
        order.append(line)

    many = [asyncio.create_task(work("many")) for _ in range(20)]
    await asyncio.sleep(0)
    await work("other")
    await asyncio.gather(*many)
    assert order.index("other") <= 2


async def test_task_that_is_cancelled_while_it_waits_holds_up_nobody() -> None:
    turns = LongTurns()
    waiting = [asyncio.create_task(turns.next(f"line {it % 2}")) for it in range(6)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    await asyncio.wait_for(turns.next("line 0"), timeout=10)


async def test_lines_that_nobody_waits_in_are_forgotten() -> None:
    turns = LongTurns()
    for number in range(100):
        await turns.next(number)
    assert not turns._lines
