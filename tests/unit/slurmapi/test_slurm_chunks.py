"""Requests about many ids are split, and the parts are sent side by side."""

from __future__ import annotations

import asyncio

import pytest

from slurmapi import JobState, SlurmBusy, SlurmClient
from slurmapi.client import _together
from tests.support import loop_turns


async def _fails() -> int:
    raise SlurmBusy("out of order")


async def _hangs() -> int:
    await asyncio.Event().wait()
    return 0


async def _answers() -> int:
    return 5


async def test_answers_are_in_order_and_none_are_asked_for_nothing() -> None:
    assert await _together([_answers(), _answers()]) == [5, 5]
    assert await _together([]) == []


@pytest.mark.parametrize("turns", range(1, 12))
async def test_caller_that_is_cancelled_when_a_part_fails_is_cancelled(turns: int) -> None:
    """At whatever turn of the event loop: a caller that lives on would never end."""
    others = asyncio.all_tasks()
    task = asyncio.ensure_future(_together([_fails(), _hangs(), _answers()]))
    for _ in range(turns):
        await asyncio.sleep(0)
    failed = task.done()
    task.cancel()
    with pytest.raises(SlurmBusy if failed else asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == others


async def test_part_that_fails_ends_the_others() -> None:
    others = asyncio.all_tasks()
    with pytest.raises(SlurmBusy, match="out of order"):
        await _together([_hangs(), _fails(), _hangs()])
    assert asyncio.all_tasks() == others
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0


async def test_question_about_many_jobs_lets_others_work_in_between(
    client: SlurmClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    async def states(_self: SlurmClient, query: str, *, max_body: int) -> dict[int, JobState]:
        assert max_body < 2**21
        asked.append(query)
        return {}

    monkeypatch.setattr(SlurmClient, "_states", states)
    async with loop_turns.beside() as turns:
        await client.job_states(range(1, 100_001))
        assert turns.count > 12, "each takes 3 ms"
    assert "&".join(asked).count("job_id=") == 100_000
    assert len(asked) == 100
