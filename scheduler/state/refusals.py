"""What the two servers refuse to do for one unit, each with the pause until the next try."""

from __future__ import annotations

from dataclasses import dataclass

from annotations import JobRequest
from scheduler.core.refused import NEVER, Refused
from scheduler.core.refused_bind import RefusedBind


@dataclass(slots=True)
class Refusals:
    """Written by `execute`, which asks; `facts` reads what is over."""

    submit: Refused[JobRequest] = NEVER
    """Refusals by Slurm and early ends of jobs in a row. What is submitted after an edit of what
    was refused waits for nothing."""
    update: Refused[JobRequest] = NEVER
    """`why` says what of the request was not taken."""
    readmit: Refused[str] = NEVER
    """By the digest of the excluded nodes: they may be all it has."""
    write: Refused[None] = NEVER
    """What the API server refuses to have written on the pod."""
    bind: RefusedBind | None = None
    """What the API server said last, until it lets the pod be bound."""
