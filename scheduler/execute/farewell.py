"""Writes a pod's outcome on its job before that is cancelled: afterwards Slurm takes no change.

It goes to the end of the user's own comment, and into our tag in the admin_comment, which slurmdbd
stores without being told to (a comment only with AccountingStoreFlags=job_comment).
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Final

import structlog

from scheduler.core.naming import read_tag
from scheduler.observe.metrics import Metrics
from scheduler.slurm.ownership import RECENT_SECONDS, TAG_SECONDS, OwnJob
from slurmapi import Job, SlurmClient, SlurmError

log = structlog.get_logger(__name__)

# A cancel is worth more than a word about it, and rests on the same look at the job: so much of the
# time that a look is good for is left to it.
_LONGEST_SECONDS: Final = TAG_SECONDS - RECENT_SECONDS
_SILENCE_SECONDS: Final = 10.0
# Longer ones are refused: bytes of UTF-8 are counted (measured on 26.05.5 and 24.11.5).
_LONGEST_COMMENT: Final = 1024
_SEPARATOR: Final = "; "


class Farewell:
    """One try for each job, of a few seconds; what fails is counted and nothing more. After one
    that took too long there is none for a while: many pods that end at once must not wait one by
    one.
    """

    def __init__(
        self, client: SlurmClient, metrics: Metrics, *, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._silent_until = float("-inf")

    async def write(self, own: OwnJob, outcome: str) -> Job:
        """The job as it stands then; never raises an error of Slurm's."""
        job = own.job
        noted = with_outcome(job, outcome)
        if noted == job or self._clock() < self._silent_until:
            return job
        said = "ok"
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                await self._client.update_job(
                    job.job_id,
                    send_by=own.send_by,
                    comment=noted.comment,
                    admin_comment=noted.admin_comment,
                )
        except SlurmError as error:
            said = error.outcome
        except TimeoutError:
            said = "timeout"
            self._silent_until = self._clock() + _SILENCE_SECONDS
        if said != "ok":
            log.info("the pod's outcome is not on its job", job_id=job.job_id, why=said)
        self._metrics.actions.labels("note", said).inc()
        return noted


def with_outcome(job: Job, outcome: str) -> Job:
    """The job with that outcome in both places; the same job where it bears one already."""
    tag = read_tag(job.admin_comment)
    if not outcome or tag is None or tag.outcome:
        return job
    comment, noted = _appended(job.comment, outcome), tag.encode(outcome=outcome)
    return dataclasses.replace(job, comment=comment, admin_comment=noted)


def _appended(comment: str, outcome: str) -> str:
    """The user's words stay whole, whatever becomes of ours."""
    joined = f"{comment}{_SEPARATOR}{outcome}" if comment else outcome
    if len(joined.encode()) <= _LONGEST_COMMENT:
        return joined
    return comment or outcome.encode()[:_LONGEST_COMMENT].decode(errors="ignore")
