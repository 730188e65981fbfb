"""The default policy repeats what may be repeated, a few times, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from slurmapi import (
    Persistent,
    SlurmBusy,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmNoSuchJob,
    SlurmRefused,
    SlurmUnreachable,
    once,
)


class Failing:
    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.tries = 0

    async def __call__(self) -> str:
        self.tries += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


@pytest.mark.parametrize("kind", [SlurmUnreachable, SlurmInterrupted, SlurmBusy])
async def test_passing_trouble_is_outlasted(kind: type[SlurmError]) -> None:
    call = Failing(kind("x"), kind("x"))
    assert await Persistent()(call) == "done"
    assert call.tries == 3


async def test_last_error_is_raised_itself_after_the_last_try() -> None:
    call = Failing(*[SlurmBusy(str(n)) for n in range(5)])
    with pytest.raises(SlurmBusy, match="2"):
        await Persistent(attempts=3)(call)


@pytest.mark.parametrize(
    "error",
    [
        SlurmRefused("x"),
        SlurmDenied("x"),
        SlurmInvalid("x"),
        SlurmNoSuchJob("x"),
        SlurmGarbled("x"),
        ValueError("x"),
    ],
)
async def test_everything_else_passes_at_once(error: Exception) -> None:
    call = Failing(error)
    with pytest.raises(type(error)):
        await Persistent()(call)
    assert call.tries == 1


async def test_cancellation_is_never_swallowed() -> None:
    call = Failing(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await Persistent()(call)
    assert call.tries == 1


async def test_asked_for_pause_that_is_too_long_is_left_to_the_caller() -> None:
    call = Failing(SlurmBusy("x", retry_after=60))
    with pytest.raises(SlurmBusy):
        await Persistent()(call)
    assert call.tries == 1


async def test_asked_for_pause_is_kept() -> None:
    call = Failing(SlurmBusy("x", retry_after=0.0))
    assert await Persistent()(call) == "done"


async def test_no_try_begins_after_the_policys_time() -> None:
    call = Failing(SlurmBusy("x"), SlurmBusy("x"))
    with pytest.raises(SlurmBusy):
        await Persistent(seconds=0)(call)
    assert call.tries == 1


async def test_once_is_once() -> None:
    call = Failing(SlurmBusy("x"))
    with pytest.raises(SlurmBusy):
        await once(call)
    assert call.tries == 1
