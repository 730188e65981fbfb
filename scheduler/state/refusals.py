"""What the two servers refuse to do for one unit, each with the pause until the next try."""

from __future__ import annotations

from dataclasses import dataclass

from annotations import JobRequest
from scheduler.core.refused_bind import RefusedBind
from scheduler.core.refused_request import NEVER, RefusedRequest


@dataclass(slots=True)
class Refusals:
    """Written by `execute`, which sends the requests; `facts` reads the pauses."""

    submit: RefusedRequest[JobRequest] = NEVER
    """Refused submits and early ends of jobs, counted together. An edit of the refused request may
    be submitted without a pause.
    """
    update: RefusedRequest[JobRequest] = NEVER
    """The refused edit; `why` says which parts Slurm did not accept."""
    readmit: RefusedRequest[str] = NEVER
    """A refused change of excluded nodes, by their digest, since the list may be long."""
    give_back: RefusedRequest[None] = NEVER
    """A job of a gang that Slurm did not make smaller."""
    write: RefusedRequest[None] = NEVER
    """A write on the pod that the API server refused."""
    bind: RefusedBind | None = None
    """The API server's last refusal to bind the pod; None after it has been bound."""
    cancel: str = ""
    """Slurm's words when it last refused to cancel the job."""
