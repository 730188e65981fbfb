"""Changes of jobs and nodes by request, and their refusals (measured on 26.05.5 and 24.11.5)."""

from collections.abc import Mapping
from typing import Any, Final

from . import lifecycle
from .cluster import Cluster
from .config import Release
from .errors import SlurmError
from .records import STARTED, Job, Node
from .submitting import check_lengths, misfit, submission

_PENDING_ONLY: Final = frozenset(
    {
        *("minimum_cpus", "cpus_per_task", "memory_per_node", "tres_per_node"),
        *("partition", "nodes", "excluded_nodes"),
    }
)
_NODE_STATES: Final = frozenset({"DRAIN", "DOWN", "RESUME", "UNDRAIN", "IDLE"})


def update_job(
    cluster: Cluster, job: Job, fields: Mapping[str, Any], *, operator: bool, now: float
) -> None:
    """Change a job; raises SlurmError 2084, 2012, 2073, 2042 or 2002. Nothing is changed then."""
    if not job.alive:
        raise SlurmError(2084)
    check_lengths(fields)
    if job.state in STARTED and not _PENDING_ONLY.isdisjoint(fields):
        raise SlurmError(2073)
    if "admin_comment" in fields and not operator:
        raise SlurmError(2002)
    if fields.get("priority") and job.held and fields.get("hold") is not False:
        raise SlurmError(2042)
    if not _PENDING_ONLY.isdisjoint(fields):
        _ask_anew(cluster, job, fields, now=now)
    _apply(cluster, job, fields, operator=operator)
    cluster.jobs_changed = now
    cluster.touch(job)


def _ask_anew(cluster: Cluster, job: Job, fields: Mapping[str, Any], *, now: float) -> None:
    """Change what a pending job asks of nodes, by the same checks as a submit."""
    described = {**job.asked.described, **fields}
    job.asked = submission(cluster, described, job.asked.script, user="root", now=now)
    job.misfit = misfit(cluster, job.asked.request)
    job.reason, job.reason_text = "None", ""


def _apply(cluster: Cluster, job: Job, fields: Mapping[str, Any], *, operator: bool) -> None:
    for name in ("comment", "admin_comment", "extra"):
        if name in fields:
            setattr(job, name, fields[name])
    if "name" in fields:
        cluster.rename(job, fields["name"])
    if "time_limit" in fields:
        job.time_limit_minutes = fields["time_limit"]
    if fields.get("priority") is not None:
        job.priority = fields["priority"]
    if "deadline" in fields:
        job.give_up_at = fields["deadline"] or 0.0
    if "begin_time" in fields:
        job.begin_time = fields["begin_time"] or 0.0
    if fields.get("hold") is True and job.priority:
        job.priority = 0
        job.reason = "JobHeldAdmin" if operator else "JobHeldUser"
    elif fields.get("hold") is False and job.priority == 0:
        job.priority, job.reason = 1, "None"


def update_node(
    cluster: Cluster, node: Node, fields: Mapping[str, Any], *, user: str, now: float
) -> None:
    """Change a node; raises SlurmError 2180 (24.11: 2028) for a state it cannot be put into."""
    states = fields.get("state", ())
    if not _NODE_STATES.issuperset(states):
        raise SlurmError(2180 if cluster.config.release is Release.V26_05 else 2028)
    for name in ("comment", "extra"):
        if name in fields:
            setattr(node, name, fields[name])
    if fields.get("address"):
        node.address = str(fields["address"][0])
    if "features" in fields:
        node.features = tuple(fields["features"])
        cluster.forget_candidates()
    if fields.get("reason"):
        node.reason, node.reason_user, node.reason_time = fields["reason"], user, now
    for state in states:
        _set_state(cluster, node, state, now=now)
    cluster.nodes_changed = now
    cluster.stirred = True


def _set_state(cluster: Cluster, node: Node, state: str, *, now: float) -> None:
    match state:
        case "DRAIN":
            node.drain = True
        case "DOWN":
            node.down = True
            lifecycle.fail_node(cluster, node, now=now)
        case "UNDRAIN":
            node.drain = False
        case _:
            node.down = node.drain = node.reboot = False
    if node.available:
        node.reason, node.reason_user, node.reason_time = "", "", 0.0
