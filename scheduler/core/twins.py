"""A pending job that waits for another job of its own name.

Every job depends on `singleton`, so Slurm starts none of them while an earlier job of the same name
lives. That job may be the pod's own: one that was submitted and never recorded, or a former one
that was requeued.
"""

from __future__ import annotations

from annotations import JobRequest
from scheduler.core.facts import UnitFacts
from slurmapi.model import Job


def behind_twin(facts: UnitFacts, record: Job) -> bool:
    """Whether the job seems to wait for one of its name. If the pod itself asks for a dependency,
    its job waits for that.
    """
    if isinstance(facts.request, JobRequest) and facts.request.dependency:
        return False
    return record.state_reason == "Dependency"
