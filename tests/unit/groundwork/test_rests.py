"""Rests between pieces of work: how long they are, and at most."""

from __future__ import annotations

from time import perf_counter

from groundwork.rests import REST, Rests

SECONDS = 0.02


def work() -> float:
    """When the work ended."""
    until = perf_counter() + SECONDS
    while perf_counter() < until:
        pass
    return perf_counter()


async def test_rest_is_twice_as_long_as_the_work() -> None:
    rests = Rests()
    async with rests.next():
        ended = work()
    async with rests.next():
        assert perf_counter() - ended >= 0.99 * REST * SECONDS


async def test_rest_is_no_longer_than_its_bound() -> None:
    rests = Rests(besides=3600.0, longest=SECONDS)
    async with rests.next():
        ended = perf_counter()
    async with rests.next():
        assert 0.99 * SECONDS <= perf_counter() - ended < 60
