"""Placeholders among the jobs of the model of Slurm."""

from __future__ import annotations

from functools import lru_cache

from scheduler.core.naming import OwnerTag, read_tag
from scheduler.sandbox.slurm import SlurmModel
from scheduler.sandbox.slurm.records import Job


def uids(job: Job, *, cluster: str = "") -> tuple[str, ...]:
    """The pods a job stands for, in that cluster or in any; none for a native job."""
    tag = _tag(job.admin_comment)
    return tag.uids if tag is not None and cluster in {"", tag.cluster} else ()


def placeholders_of(slurm: SlurmModel, uid: str) -> list[Job]:
    """All jobs for a pod, ended ones included."""
    return [job for job in slurm.jobs() if uid in uids(job)]


@lru_cache
def _tag(admin_comment: str) -> OwnerTag | None:
    return read_tag(admin_comment)
