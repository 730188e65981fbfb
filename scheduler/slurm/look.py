"""The look: one request for the full record of one job, which is stored in its placeholder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from scheduler.core.tagged import TaggedJob
from scheduler.slurm.arrival import Arrival
from scheduler.state.units import Placeholder, Unit
from slurmapi import SlurmClient, SlurmGarbled, SlurmNoSuchJob, SlurmRefused, is_word_of_slurm

log = structlog.get_logger(__name__)

# Anybody may write the id of an array into an annotation: a thousand tasks have 5 MiB, which take
# 7 ms to decode. If a gang's record is longer, the census finds its job.
_CLAIMED_BYTES: Final = 1024 * 1024


async def read_job(client: SlurmClient, job_id: int, *, claimed: bool = False) -> TaggedJob:
    """The job's record with its owner tag, which is decoded when a record arrives; raises as
    `SlurmClient.job` does. It does not say how many pods each node of a packed gang has. Of a job
    that is only `claimed`, no long answer is read.
    """
    if claimed:
        return TaggedJob.of(await client.job(job_id, longest=_CLAIMED_BYTES))
    return TaggedJob.of(await client.job(job_id))


async def laid_out(
    client: SlurmClient, record: TaggedJob, *, known: TaggedJob | None = None
) -> TaggedJob:
    """The record with how many pods each node of a packed gang has. That takes a long request, so
    it is made once for each start of a job, and what is `known` from before counts afterwards. If
    Slurm does not say it, the record stays as it is: who owns the job, and whether it runs, is
    known all the same. Raises SlurmError if Slurm did not answer.
    """
    if not record.packed:
        return record
    record = record if known is None else record.laid_out_as(known)
    if record.laid_out:
        return record
    try:
        return TaggedJob.of(await client.laid_out(record))
    except (SlurmRefused, SlurmGarbled) as error:
        log.warning("pods of a gang cannot be counted", job_id=record.job_id, error=str(error))
        return record


def _names_pod_of(unit: Unit, record: TaggedJob) -> bool:
    """Whether the job's tag names a pod of the unit. Otherwise a pod names the job of others."""
    return record.tag is not None and not unit.uids.isdisjoint(record.tag.uids)


async def look(
    client: SlurmClient, unit: Unit, job: Placeholder, *, clock: Callable[[], float]
) -> None:
    """Look at one job and store the record in its placeholder. Raises SlurmError if Slurm gave no
    information.

    "No such job" is counted in `missing`; enough of them are evidence (`core/doubt.py`). If the job
    is only claimed, any answer of Slurm other than its record refutes the claim.
    """
    job.looked_at = asked = clock()
    try:
        with Arrival(clock) as arrival:
            record = await read_job(client, job.job_id, claimed=job.claimed)
            if record.packed and (not job.claimed or _names_pod_of(unit, record)):
                record = await laid_out(client, record, known=job.record)
            at = arrival.earliest()
    except SlurmNoSuchJob:
        job.refuted = job.claimed
        if unit.job is job:
            job.missed_at = job.looked_at if job.missing == 0 else job.missed_at
            job.missing += 1
        return
    except (SlurmRefused, SlurmGarbled) as error:
        if not job.claimed or not is_word_of_slurm(error):
            raise
        job.refuted = True
        return
    if unit.job is job:
        job.saw(record, asked=asked, at=at, answered_at=clock())
