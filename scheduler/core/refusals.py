"""What Slurm's refusal of a job means for the pod's owner: which field, which value, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from annotations import PREFIX, JobRequest


def _annotation(name: str) -> Callable[[JobRequest], str]:
    def told(request: JobRequest) -> str:
        value = getattr(request, name)
        return f"{PREFIX}{name} is {value!r}" if value else f"{PREFIX}{name} is not set"

    return told


def _timeout(request: JobRequest) -> str:
    minutes = request.time_limit_minutes
    told = "is not set" if minutes is None else f"comes to {minutes} minutes"
    return f"{PREFIX}timeout {told}"


def _size(request: JobRequest) -> str:
    asked = [f"{request.cpus} CPUs", f"{request.memory_mib} MiB of memory"]
    if request.gres:
        asked.append(request.gres)
    return f"the containers' resources come to {', '.join(asked)} on one node"


# Numbers of slurm_errno.h; which of them a submit is answered with was measured on 26.05 and 24.11.
_MEANINGS: Final[dict[int, tuple[Callable[[JobRequest], str], str]]] = {
    2000: (_annotation("partition"), "name a partition that `sinfo` shows"),
    2014: (_size, "ask for less, or for what some node of the partition has"),
    2015: (_size, "ask for less, or for what some node of the partition has"),
    2072: (_size, "ask for a resource that Slurm's nodes have"),
    2115: (_size, "ask for a resource that Slurm's nodes have"),
    2045: (
        _annotation("account"),
        "name an account the job's user belongs to (`sacctmgr show assoc`)",
    ),
    2066: (_annotation("qos"), "name a QoS that `sacctmgr show qos` shows and the account may use"),
    2053: (_annotation("reservation"), "name a reservation that `scontrol show res` shows"),
    2051: (_timeout, "stay below the partition's time limit"),
}


def refusal_text(request: JobRequest, *, error_number: int, description: str) -> str:
    """One message: Slurm's words, the field and value they are about, and what would help."""
    meaning = _MEANINGS.get(error_number)
    if meaning is None:
        return f"Slurm refused the job: {description}; ask the Slurm operators"
    field, remedy = meaning
    return f"Slurm refused the job: {description}; {field(request)}; {remedy}"
