"""Jobs that their unit has let go of are marked before they are cancelled.

A cancel may take effect long after the process that sent it has died, and a next one may have found
the job meanwhile: without the mark it would take the job as its own, and its end for somebody's
scancel, which ends the pod.
"""

from __future__ import annotations

from scheduler.core.naming import Owner, read_tag, stands_for
from slurmapi import SlurmClient, SlurmDenied, SlurmNoSuchJob, SlurmRefused


async def mark_given_back(slurm: SlurmClient, job_id: int, *, uid: str, owner: Owner) -> bool:
    """Whether the job is to be cancelled now: it lives, and is ours for the pod of that uid.

    Raises SlurmError where Slurm cannot be asked.
    """
    try:
        job = await slurm.job(job_id)
    except SlurmNoSuchJob:
        return False
    tag = read_tag(job.admin_comment)
    if job.state.ended or tag is None or not stands_for(job.admin_comment, uid, owner=owner):
        return False
    if not tag.given_back:
        await _mark(slurm, job_id, tag.encode(given_back=True))
    return True


async def _mark(slurm: SlurmClient, job_id: int, noted: str) -> None:
    try:
        await slurm.update_job(job_id, admin_comment=noted)
    except SlurmDenied:
        raise
    except SlurmRefused:
        return  # it has just ended, and needs no mark
