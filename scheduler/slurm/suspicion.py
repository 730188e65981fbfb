"""Finds out whether Slurm accepts no jobs at all, after refusals that may concern one job each.

One unit proves nothing about Slurm: a job_submit plugin may always refuse its job. Two refusals in
a row for different units are a reason to ask Slurm. Other submits are held back only if it answers
neither of two requests.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeGuard

from slurmapi import SlurmClient, SlurmDenied, SlurmError, SlurmInvalid, SlurmRefused

# However many units are refused, Slurm gets two small requests at most every 5 s.
_ASK_SECONDS: Final = 5.0
# Any id works: "no such job" is an answer too.
_ANY_ID: Final = 1


def about_one_job(error: SlurmError) -> TypeGuard[SlurmRefused]:
    """Whether the refusal may concern this job alone, and not the token or all jobs."""
    denied_to_all = isinstance(error, SlurmDenied) and error.authentication
    return isinstance(error, SlurmRefused) and not denied_to_all


class Suspicion:
    """Remembers the unit whose submit was last refused without a reason that is clearly the job's
    own.
    """

    def __init__(self, slurm: SlurmClient, *, clock: Callable[[], float]) -> None:
        self._slurm = slurm
        self._clock = clock
        self._last = ""
        self._asked_at = float("-inf")

    def dispel(self) -> None:
        """Drop the suspicion: Slurm has accepted a job, or refused one for a fault of the job."""
        self._last = ""

    async def confirmed(self, key: str, error: SlurmRefused) -> bool:
        """Whether the refusal of this unit's submit concerns all jobs after all."""
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
