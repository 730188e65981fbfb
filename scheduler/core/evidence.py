"""How good the evidence against a pod is (I7). What one mistake of Slurm's can bring about for many
pods at once is weak, and the brake slows it; what is strong is acted upon at once.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Final

from scheduler.core.reasons import Reason

SETTLING_SECONDS: Final = 120.0
"""So long after a start of slurmctld its records are weak evidence. One that came back with an old
state, or without its nodes, shows the ends it makes up within two checks of its time limits (30 s
each) and a minute for its nodes to register.
"""


@unique
class Evidence(StrEnum):
    """What says that a pod is to go."""

    RECORD = "record"
    """The record of its own job."""
    ABSENCE = "absence"
    """Slurm does not know its job."""
    TAKEN = "taken"
    """Another job holds what the pod runs on: it computes there already."""


def is_weak(evidence: Evidence, reason: Reason, *, seen_at: float, doubted_at: float) -> bool:
    """Whether many pods might go by one mistake. `doubted_at` is when it was last in doubt whether
    the same slurmctld answers, `seen_at` when the record was read.

    A lost node is weak at any time: a slurmctld that reaches none of its nodes ends all jobs, and
    starts nothing there that a pod could be in the way of.
    """
    if evidence is Evidence.TAKEN:
        return False
    if evidence is Evidence.ABSENCE or reason is Reason.NODE_FAILED:
        return True
    return seen_at < doubted_at + SETTLING_SECONDS
