"""What was requested from Slurm for a unit, besides the job itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.state.exclusions import Exclusions


@dataclass(slots=True)
class Asked:
    """Written by `execute`, which sends the requests."""

    submitting: bool = False
    """A submit is under way, and until it is recorded its job is not a leftover."""
    judged_by: int | None = None
    """The version of the policy that the job was submitted or last updated with; None if a former
    process did that.
    """
    tried_at: float | None = None
    """When this process first submitted a job for the unit; after the bind, when it bound the pod.
    None before that.
    """
    may_pack: bool = True
    """Whether Slurm may choose how many of its pods each node gets. It may not if it has reported
    more than there are.
    """
    exclusions: Exclusions = field(default_factory=Exclusions)
    """The nodes that its jobs must avoid."""
