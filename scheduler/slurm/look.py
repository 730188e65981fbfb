"""The look: one request for the full record of one job, into what is remembered of it."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.state.units import Placeholder, Unit
from slurmapi import SlurmClient, SlurmGarbled, SlurmNoSuchJob, SlurmRefused, is_word_of_slurm


async def look(
    client: SlurmClient, unit: Unit, job: Placeholder, *, clock: Callable[[], float]
) -> None:
    """A full look at one job, into its placeholder; raises SlurmError where it told nothing.

    "No such job" counts towards `missing`, which is evidence from a count on (`core/doubt.py`). Any
    word of Slurm's that is not its record refutes a job that is only claimed.
    """
    job.looked_at = asked = clock()
    try:
        record = await client.job(job.job_id)
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
        now = clock()
        job.saw(record, asked=asked, at=now, told_at=now)
