"""Explains Slurm's refusal of a job to the pod's owner: which field, which value, what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from annotations import JobRequest
from scheduler.core.edits import called


def _annotation(*fields: str) -> Callable[[JobRequest], str]:
    """Names the annotations that fill these fields, with their values; all of them if none
    is set.
    """

    def field_text(request: JobRequest) -> str:
        values = {called(name, request): _asked_value(request, name) for name in fields}
        given = {key: value for key, value in values.items() if value is not None}
        if not given:
            return " and ".join(f"{key} is not set" for key in values)
        return " and ".join(f"{key} is {value!r}" for key, value in given.items())

    return field_text


def _asked_value(request: JobRequest, name: str) -> object:
    value = getattr(request, name)
    return (",".join(value) or None) if isinstance(value, tuple) else value


def _timeout(request: JobRequest) -> str:
    minutes = request.time_limit_minutes
    set_to = "is not set" if minutes is None else f"comes to {minutes} minutes"
    text = f"{called('time_limit_minutes', request)} {set_to}"
    moments = [name for name in ("begin", "deadline") if getattr(request, name) is not None]
    return " and ".join([text, _annotation(*moments)(request)] if moments else [text])


def _request_text(request: JobRequest) -> str:
    asked = [f"{request.cpus} CPUs", f"{request.memory_mib} MiB of memory"]
    if request.gres:
        asked.append(request.gres)
    if request.threads_per_core:
        asked.append(f"{request.threads_per_core} threads of each core")
    if request.constraints:
        asked.append(f"the features {request.constraints}")
    return f"the containers' resources come to {', '.join(asked)} on one node"


def _limited(request: JobRequest) -> str:
    asked = [_annotation("account", "qos")(request), _timeout(request), _request_text(request)]
    return "; ".join(asked)


TOO_LARGE_ERRORS: Final = frozenset({2005, 2006, 2014, 2015, 2050})
"""Slurm's answers to a job that is larger than what it may get: CPUs, nodes, what the partition
has, the limits of its account or QoS.
"""

# Error numbers of slurm_errno.h. Which of them a submit can get was measured on 26.05 and 24.11.
_MEANINGS: Final[dict[int, tuple[Callable[[JobRequest], str], str]]] = {
    # slurmrestd leaves out the plugin's own message (measured on both).
    -1: (
        lambda _request: "a job_submit plugin of this Slurm cluster has refused it",
        "ask the Slurm operators what it wants (job_submit.lua, and slurmctld's log)",
    ),
    2000: (
        _annotation("partition"),
        "name a partition that `kubectl slurm partitions` or `sinfo` shows",
    ),
    2010: (_annotation("user_id"), "name a user that may have jobs"),
    2014: (_request_text, "ask for less, or for what some node of the partition has"),
    2015: (_request_text, "ask for less, or for what some node of the partition has"),
    2018: (
        _annotation("required_nodes", "excluded_nodes"),
        "name nodes that `sinfo -N` shows",
    ),
    2029: (
        _annotation("constraints"),
        "name features that `sinfo -o %f` shows, joined by & or |",
    ),
    2038: (
        _annotation("dependency"),
        "name jobs that `squeue` shows; one that ended long ago is forgotten",
    ),
    2072: (_request_text, "ask for a resource that Slurm's nodes have"),
    2115: (_request_text, "ask for a resource that Slurm's nodes have"),
    2045: (
        _annotation("account"),
        "name an account the job's user belongs to (`sacctmgr show assoc`)",
    ),
    2066: (_annotation("qos"), "name a QoS that `sacctmgr show qos` shows and the account may use"),
    2050: (
        _limited,
        "wait for jobs of this account and QoS to end, ask for less, or have the limit raised "
        "(`sacctmgr show assoc`, `sacctmgr show qos`)",
    ),
    2052: (
        _annotation("reservation"),
        "name a reservation that `scontrol show res` shows for the job's user or account",
    ),
    2053: (_annotation("reservation"), "name a reservation that `scontrol show res` shows"),
    2048: (_annotation("licenses"), "ask for licenses that `scontrol show lic` shows"),
    2051: (_timeout, "stay below the partition's time limit, and end before the deadline"),
    2119: (_request_text, "ask for all GPUs with a type, or for all without one"),
    2123: (_annotation("nice"), "ask for 0 or more"),
    2133: (_annotation("prefer"), "name features that `sinfo -o %f` shows"),
    2163: (_annotation("group_id"), "name a group that may have jobs"),
    9202: (_annotation("begin", "deadline"), "write a moment such as 2030-01-31T08:00:00Z"),
}


def refusal_text(request: JobRequest, *, error_number: int, description: str) -> str:
    """One message: Slurm's words, the field and value that they are about, and what would help."""
    meaning = _MEANINGS.get(error_number)
    if meaning is None:
        return f"Slurm refused the job: {description}; ask the Slurm operators"
    field, remedy = meaning
    return f"Slurm refused the job: {description}; {field(request)}; {remedy}"
