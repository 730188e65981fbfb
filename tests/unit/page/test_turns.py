"""Work of the page in short turns: what comes between two pieces of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import perf_counter

from scheduler.page.turns import _AROUND_SECONDS, TURN_SECONDS, TurnsInTurn

SECONDS = TURN_SECONDS / 3


def work() -> float:
    """When the work ended."""
    until = perf_counter() + SECONDS
    while perf_counter() < until:
        pass
    return perf_counter()


async def test_pieces_too_short_for_a_rest_have_one_between_them() -> None:
    turns, ended = TurnsInTurn(), 0.0
    for _ in range(5):
        async with turns.next():
            assert perf_counter() - ended >= 1.9 * SECONDS
            ended = work()


async def test_piece_that_is_cancelled_is_rested_from_too() -> None:
    turns, ended = TurnsInTurn(), 0.0
    with suppress(asyncio.CancelledError):
        async with turns.next():
            ended = work()
            raise asyncio.CancelledError
    async with turns.next():
        assert perf_counter() - ended >= 1.9 * SECONDS


async def test_answer_without_any_work_is_rested_from_too() -> None:
    """Its request has been read, and it must be sent."""
    turns, many = TurnsInTurn(), 50
    began = perf_counter()
    for _ in range(many):
        async with turns.next():
            pass
    assert perf_counter() - began >= (many - 1) * 2 * _AROUND_SECONDS
