"""Marks jobs that their unit has released, before they are cancelled.

A cancel may take effect long after the process that sent it has died, and the next process may have
found the job in the meantime. Without the mark it would adopt the job and mistake its end for
somebody else's scancel, which ends the pod.
"""

from __future__ import annotations

from scheduler.core.owner_tag import Owner
from scheduler.slurm.ownership import OwnJob, own_job
from scheduler.state.units import Unit
from slurmapi import SlurmClient, SlurmDenied, SlurmRefused


async def mark_given_back(
    slurm: SlurmClient, job_id: int, *, unit: Unit, owner: Owner
) -> OwnJob | None:
    """Set `given_back` in the job's tag. Returns the job if it may be cancelled now, that is, if it
    has not ended and is ours for this unit; otherwise None.

    Raises SlurmError if Slurm cannot be asked.
    """
    own = await own_job(slurm, job_id, unit=unit, owner=owner)
    tag = None if own is None else own.job.tag
    if own is None or tag is None or (own.job.state.ended and not own.job.state.partial):
        return None
    if tag.given_back:
        return own
    await _mark(slurm, own, tag.encode(given_back=True))
    # The update may have taken long, and slurmctld may have restarted without its state since.
    return await own_job(slurm, job_id, unit=unit, owner=owner)


async def _mark(slurm: SlurmClient, own: OwnJob, noted: str) -> None:
    try:
        await slurm.update_job(own.job.job_id, send_by=own.send_by, admin_comment=noted)
    except SlurmDenied:
        raise
    except SlurmRefused:
        return  # it has just ended, or a plugin refuses the mark; cancel it anyway
