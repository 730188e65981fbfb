"""Finds out whether Slurm takes no jobs at all, after refusals that may be about one job each.

One unit says nothing about Slurm: a job_submit plugin may refuse it for ever. Two different ones in
a row are a reason to ask, and only where Slurm answers neither question are others kept back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeGuard

from slurmapi import SlurmClient, SlurmDenied, SlurmError, SlurmInvalid, SlurmRefused

# Refused units cost Slurm two small questions so often at most, however many they are.
_ASK_SECONDS: Final = 5.0
# Any id will do: that Slurm does not know a job is an answer.
_ANY_ID: Final = 1


def about_one_job(error: SlurmError) -> TypeGuard[SlurmRefused]:
    """Whether what the job asked for may have been refused, and not the token or all jobs."""
    denied_to_all = isinstance(error, SlurmDenied) and error.authentication
    return isinstance(error, SlurmRefused) and not denied_to_all


class Suspicion:
    """Remembers whose submit was refused last without a reason that is known to be a job's own."""

    def __init__(self, slurm: SlurmClient, *, clock: Callable[[], float]) -> None:
        self._slurm = slurm
        self._clock = clock
        self._last = ""
        self._asked_at = float("-inf")

    def dispel(self) -> None:
        """Slurm has taken a job, or given a reason that only a job can be to blame for."""
        self._last = ""

    async def confirmed(self, key: str, error: SlurmRefused) -> bool:
        """Whether the refusal of that unit's submit is about all jobs after all."""
        if isinstance(error, SlurmInvalid):
            self.dispel()
            return False
        former, self._last = self._last, key
        if former in {"", key} or self._clock() < self._asked_at + _ASK_SECONDS:
            return False
        self._asked_at = self._clock()
        return not await self._slurm_answers()

    async def _slurm_answers(self) -> bool:
        with suppress(SlurmError):
            if (await self._slurm.ping()).responding:
                return True
        with suppress(SlurmError):
            await self._slurm.job_states([_ANY_ID])
            return True
        return False
