"""The one clock of `timeout`: Slurm's time limit, counted from the start of the job.

It runs from when Slurm gives the node, before the pod is bound, and an operator may change it at
any time; what the pod is told follows.
"""

from __future__ import annotations

from datetime import UTC, datetime

from slurmapi.model import BaseState, Job


def ends_at(record: Job) -> str:
    """When the running job reaches its limit, in RFC 3339; empty where it has none."""
    if record.state.base is not BaseState.RUNNING or record.end_time is None:
        return ""
    return datetime.fromtimestamp(record.end_time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
