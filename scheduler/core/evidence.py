"""How strong the evidence against a pod is (I7). Evidence that a single mistake of Slurm's can
cause for many pods at once is weak, and the brake delays it. Strong evidence is acted upon at once.

`brake.py` lists the other modules that take part.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Final

from scheduler.core.event_reasons import Reason

SETTLING_SECONDS: Final = 120.0
"""How long after a start slurmctld's records are weak evidence. If it came back with an old state
or without its nodes, it reports wrong endings within two checks of time limits (30 s each) and a
minute in which its nodes register.
"""


@unique
class Evidence(StrEnum):
    """The evidence that a pod must go."""

    RECORD = "record"
    """The record of its own job."""
    ABSENCE = "absence"
    """Slurm does not know its job any more."""
    TAKEN = "taken"
    """Another job holds the pod's resources, and already computes there."""
    AUTHOR = "author"
    """The pod's author wants it so."""


def is_weak(evidence: Evidence, reason: Reason, *, seen_at: float, doubted_at: float) -> bool:
    """Whether one mistake might end many pods by this evidence. `doubted_at` is the last time when
    slurmctld may have restarted, and `seen_at` when the record was read.

    A lost node is always weak evidence: a slurmctld that reaches none of its nodes ends all jobs,
    and then starts no jobs there that the pods could disturb. A gang that is released lacks a node
    of Slurm or Kubernetes, so one mistake may release many of them. What an author wants is no
    mistake of Slurm: if it counted, one tenant's gangs could hold the pods of others.
    """
    if evidence in {Evidence.TAKEN, Evidence.AUTHOR}:
        return False
    if evidence is Evidence.ABSENCE or reason in {Reason.NODE_FAILED, Reason.GANG_RELEASED}:
        return True
    return seen_at < doubted_at + SETTLING_SECONDS
