"""Writes a pod's outcome into its job before the job is cancelled; later Slurm accepts no change.

The outcome is appended to the user's comment, and stored in our tag in admin_comment too. slurmdbd
stores the admin_comment always, the comment only with AccountingStoreFlags=job_comment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from scheduler.core.tagged import TaggedJob
from scheduler.observe.metrics import Metrics
from scheduler.slurm.ownership import RECENT_SECONDS, TAG_SECONDS, OwnJob
from slurmapi import SlurmClient, SlurmError

log = structlog.get_logger(__name__)

# The cancel is more important than this note, and relies on the same look at the job. This limit
# leaves the cancel enough of the time for which that look is valid.
_LONGEST_SECONDS: Final = TAG_SECONDS - RECENT_SECONDS
_SILENCE_SECONDS: Final = 10.0
# Slurm refuses longer ones; it counts bytes of UTF-8 (measured on 26.05.5 and 24.11.5).
_LONGEST_COMMENT: Final = 1024
_SEPARATOR: Final = "; "


class Farewell:
    """Tries once for each job, for a second. A failure is only counted. After a timeout no
    note is tried for a while, so that many pods that end at once do not each wait for one.
    """

    def __init__(
        self, client: SlurmClient, metrics: Metrics, *, clock: Callable[[], float]
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._clock = clock
        self._silent_until = float("-inf")

    async def write(self, own: OwnJob, outcome: str) -> TaggedJob:
        """Write the outcome, and return the job with it, even if Slurm has not taken it: this is
        tried only once. Never raises SlurmError.
        """
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


def with_outcome(job: TaggedJob, outcome: str) -> TaggedJob:
    """The job with the outcome in both places; the same job if it has an outcome already."""
    tag = job.tag
    if not outcome or tag is None or tag.outcome:
        return job
    comment, noted = _appended(job.comment, outcome), tag.encode(outcome=outcome)
    return msgspec.structs.replace(job, comment=comment, admin_comment=noted)


def _appended(comment: str, outcome: str) -> str:
    """The user's comment stays complete. Our part is left out if both are too long for Slurm."""
    joined = f"{comment}{_SEPARATOR}{outcome}" if comment else outcome
    if len(joined.encode()) <= _LONGEST_COMMENT:
        return joined
    return comment or outcome.encode()[:_LONGEST_COMMENT].decode(errors="ignore")
