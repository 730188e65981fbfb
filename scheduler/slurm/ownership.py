"""The tag of a job is read in the very action that cancels or changes it (I14).

What was read before may be true of another job by now: a slurmctld that has lost its state gives
the same ids to others, and it can do so between two polls of which none fails (measured). So each
write has a time by which it must have left, waits for a connection included, and whoever repeats a
write reads the tag again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.core.naming import Owner, stands_for
from scheduler.slurm.look import look
from scheduler.state.units import Placeholder, Unit
from slurmapi import Job, SlurmClient, SlurmNoSuchJob

TAG_SECONDS: Final = 2.0
"""So long after the answer that showed a tag a write may still leave."""
RECENT_SECONDS: Final = TAG_SECONDS / 2
"""A tag that was read longer ago is read again before a write, so that each write has at least so
long to leave.
"""


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job that a look has just shown to be ours; a write that rests on that look must have left
    at `send_by`, in the event loop's time.
    """

    job: Job
    send_by: float


async def own_job(slurm: SlurmClient, job_id: int, *, uid: str, owner: Owner) -> OwnJob | None:
    """The job as it is now, where it is ours for the pod of that uid; None where it is not, or not
    any more. Raises SlurmError where Slurm does not say.
    """
    try:
        job = await slurm.job(job_id)
    except SlurmNoSuchJob:
        return None
    return OwnJob(job, soon()) if stands_for(job.admin_comment, uid, owner=owner) else None


async def own_placeholder(
    slurm: SlurmClient, unit: Unit, job: Placeholder, *, owner: Owner, clock: Callable[[], float]
) -> OwnJob | None:
    """The same for the job that the unit holds. What the look tells goes into its placeholder, so
    that the next pass knows it.
    """
    await look(slurm, unit, job, clock=clock)
    return _owned(unit, job, owner)


async def still_own(
    slurm: SlurmClient, unit: Unit, job: Placeholder, *, owner: Owner, clock: Callable[[], float]
) -> OwnJob | None:
    """The same, without another look where the last one is recent enough."""
    if not job.proven or clock() - job.record_at > RECENT_SECONDS:
        await look(slurm, unit, job, clock=clock)
    return _owned(unit, job, owner)


def soon() -> float:
    """By when a write must have left that rests on an answer of this moment."""
    return asyncio.get_running_loop().time() + TAG_SECONDS


def _owned(unit: Unit, job: Placeholder, owner: Owner) -> OwnJob | None:
    record = None if job.missing else job.record
    if record is None or not stands_for(record.admin_comment, unit.key, owner=owner):
        return None
    return OwnJob(record, job.record_at + TAG_SECONDS)
