"""What was asked of Slurm for a unit, beside the job itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.state.exclusions import Exclusions


@dataclass(slots=True)
class Asked:
    """Written by `execute`, which asks."""

    submitting: bool = False
    """A submit is under way, with all that belongs to it: its job is no leftover."""
    judged_by: int | None = None
    """The version of the policy by which its job was asked for or updated last; None where a former
    process did."""
    tried_at: float | None = None
    """When this process first asked for a job for it, and then when it bound it; None before."""
    exclusions: Exclusions = field(default_factory=Exclusions)
    """The nodes it asks not to get."""
