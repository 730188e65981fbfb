"""Reads a job's owner tag in the same action that cancels or changes the job (I14).

What was read earlier may belong to another job by now: a slurmctld that has lost its state reuses
ids, and this can happen between two polls that both succeed (measured). So each write has a time by
which it must be sent, including any wait for a connection, and whoever repeats a write reads the
tag again. What makes a job ours: `TaggedJob.is_of` in `core/tagged.py`. The tag's format, and which
tags are believed: `OwnerTag` and `read_tag` in `core/owner_tag.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from scheduler.core.owner_tag import Owner
from scheduler.core.tagged import TaggedJob
from scheduler.slurm.arrival import Arrival
from scheduler.slurm.look import look, read_job
from scheduler.state.units import Placeholder, Unit
from slurmapi import SlurmClient, SlurmNoSuchJob

TAG_SECONDS: Final = 2.0
"""How long after the answer that showed the tag a write may still be sent."""
RECENT_SECONDS: Final = TAG_SECONDS / 2
"""If the tag was read longer ago than this, it is read again before a write, so that each write has
at least the rest of TAG_SECONDS to be sent.
"""


@dataclass(frozen=True, slots=True)
class OwnJob:
    """A job that a look has just shown to be ours. A write that relies on that look must be sent
    before `send_by`, in the event loop's time.
    """

    job: TaggedJob
    send_by: float


async def own_job(slurm: SlurmClient, job_id: int, *, unit: Unit, owner: Owner) -> OwnJob | None:
    """The job as it is now, if it is ours for this unit; otherwise None. Raises SlurmError if Slurm
    cannot be asked.
    """
    try:
        with Arrival(asyncio.get_running_loop().time) as arrival:
            job = await read_job(slurm, job_id)
            send_by = arrival.earliest() + TAG_SECONDS
    except SlurmNoSuchJob:
        return None
    return OwnJob(job, send_by) if unit.owns(job, owner=owner) else None


async def own_placeholder(
    slurm: SlurmClient, unit: Unit, job: Placeholder, *, owner: Owner, clock: Callable[[], float]
) -> OwnJob | None:
    """The same for the job that a unit holds. The look is stored in its placeholder, for the next
    pass.
    """
    await look(slurm, unit, job, clock=clock)
    return _owned(unit, job, owner)


async def still_own(
    slurm: SlurmClient, unit: Unit, job: Placeholder, *, owner: Owner, clock: Callable[[], float]
) -> OwnJob | None:
    """The same, but without another look if the last one is recent enough."""
    if not job.proven or clock() - job.record_at > RECENT_SECONDS:
        await look(slurm, unit, job, clock=clock)
    return _owned(unit, job, owner)


def soon() -> float:
    """The time by which a write must be sent if it relies on an answer that was read just now."""
    return asyncio.get_running_loop().time() + TAG_SECONDS


def _owned(unit: Unit, job: Placeholder, owner: Owner) -> OwnJob | None:
    record = None if job.missing else job.record
    if record is None or not unit.owns(record, owner=owner):
        return None
    return OwnJob(record, job.record_at + TAG_SECONDS)
