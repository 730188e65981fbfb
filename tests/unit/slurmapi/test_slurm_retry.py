"""Which errors of Slurm the policy repeats a request after."""

from __future__ import annotations

import pytest

from groundwork.retry import retry_policy
from slurmapi import (
    SlurmBusy,
    SlurmDenied,
    SlurmError,
    SlurmGarbled,
    SlurmInterrupted,
    SlurmInvalid,
    SlurmNoSuchJob,
    SlurmRefused,
    SlurmUnreachable,
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
    assert await retry_policy(SlurmError)(call) == "done"
    assert call.tries == 3


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
        await retry_policy(SlurmError)(call)
    assert call.tries == 1
