"""When a running job reaches its time limit (annotation `timeout`).

Slurm counts from the start of the job, which is before the pod is bound. An operator may change the
limit at any time, and the pod's annotation follows. The time that remains when another job replaces
this one: `tenure.py`. What Slurm leaves a job that it preempts: `endings.py` (`seconds_left`).
"""

from __future__ import annotations

from datetime import UTC, datetime

from slurmapi.model import BaseState, Job


def ends_at(record: Job) -> str:
    """When the running job reaches its limit, in RFC 3339; "" if it has none."""
    if record.state.base is not BaseState.RUNNING or record.end_time is None:
        return ""
    return datetime.fromtimestamp(record.end_time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
