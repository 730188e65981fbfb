"""Helpers for jobs of the Slurm model: native jobs and placeholders."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from scheduler.core.owner_tag import OwnerTag, read_tag
from scheduler.sandbox.slurm import SlurmModel
from scheduler.sandbox.slurm.records import Job


def submit_native(
    slurm: SlurmModel, name: str, *, user: str, script: str | None, **fields: Any
) -> Job:
    """Submit a job of one of Slurm's own users; it runs until it is cancelled."""
    asked = {
        "name": name,
        "environment": ["A=b"],
        "current_working_directory": "/",
        "memory_per_node": 100,
        "tasks": 1,
    }
    job, _remark = slurm.submit(asked | fields, script, user=user)
    return job


def uids(job: Job, *, cluster: str = "") -> tuple[str, ...]:
    """Uids of the pods that a job stands for, in that cluster or in any; none for a native job."""
    tag = _tag(job.admin_comment)
    return tag.uids if tag is not None and cluster in {"", tag.cluster} else ()


def placeholders_of(slurm: SlurmModel, uid: str) -> list[Job]:
    """All jobs for a pod, ended ones included."""
    return [job for job in slurm.jobs() if uid in uids(job)]


@lru_cache
def _tag(admin_comment: str) -> OwnerTag | None:
    return read_tag(admin_comment)
