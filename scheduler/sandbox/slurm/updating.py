"""Updates of jobs and nodes, and how Slurm refuses them (measured on 26.05.5 and 24.11.5)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from . import accounting, lifecycle
from .cluster import Cluster
from .config import Release
from .dependencies import check as check_dependency
from .errors import SlurmError
from .hostlist import expand
from .records import STARTED, Job, Node
from .submitting import check_lengths, misfit, submission

# Fields that make slurmctld place the job anew; it refuses to change them in a running job.
_PENDING_ONLY: Final = frozenset(
    {
        *("minimum_cpus", "cpus_per_task", "memory_per_node", "tres_per_node", "nodes", "tasks"),
        *("partition", "reservation", "required_nodes", "excluded_nodes", "constraints"),
    }
)
# With these a running job can be shrunk.
_SIZES: Final = frozenset({"nodes", "tasks", "required_nodes"})
_REMOVABLE: Final = frozenset({"reservation", "required_nodes", "excluded_nodes"})
_NODE_STATES: Final = frozenset({"DRAIN", "DOWN", "RESUME", "UNDRAIN", "IDLE"})


def update_job(
    cluster: Cluster, job: Job, fields: Mapping[str, Any], *, operator: bool, now: float
) -> None:
    """Change a job; raises SlurmError 2084, 2012, 2073, 2002, 2042, 11, or as a submit does.

    An update is not atomic, as measured: if the priority is refused (2042), other changes stay.
    """
    if not job.alive:
        raise SlurmError(2084)
    check_lengths(fields)
    keep: Sequence[str] | None = None
    by_number = "nodes" in fields
    if job.state in STARTED:
        keep = _kept(job, fields)
        fields = {name: value for name, value in fields.items() if name not in _SIZES}
        if not _PENDING_ONLY.isdisjoint(fields):
            raise SlurmError(2073)
    if "admin_comment" in fields and not operator:
        raise SlurmError(2002)
    check_dependency(cluster, fields.get("dependency", ""))
    if keep is not None:
        _shrink(cluster, job, keep, by_number=by_number, now=now)
    anew = {name: fields[name] for name in _PENDING_ONLY & fields.keys()}
    if anew:
        _ask_anew(cluster, job, anew, now=now)
    refused = _apply(cluster, job, fields, operator=operator)
    cluster.jobs_changed = now
    cluster.touch(job)
    if refused:
        raise SlurmError(refused)


def _kept(job: Job, fields: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the nodes that a running job is to keep; None if it keeps all.

    ``nodes`` is the number of the first nodes to keep, unless the number of tasks is to change too,
    or follows from the tasks per node. Raises SlurmError 2073 if the job cannot be changed like
    this. Raises 2018 if the job does not have one of the required nodes, or if its script's node is
    not among them.
    """
    held = [share.node for share in job.shares]
    if fields.get("tasks", job.asked.tasks) != job.asked.tasks:
        raise SlurmError(2073)
    if "nodes" in fields:
        count = int(str(fields["nodes"]).partition("-")[0])
        if count > len(held) or (count < len(held) and job.asked.tasks_per_node):
            raise SlurmError(2073)
        return held[:count] if count < len(held) else None
    if "required_nodes" not in fields:
        return None
    keep = [node for entry in fields["required_nodes"] for node in expand(entry)]
    leaves_script = not job.external and job.batch_host not in keep
    if not keep or leaves_script or not set(keep) <= set(held):
        raise SlurmError(2018)
    return keep


def _shrink(
    cluster: Cluster, job: Job, keep: Sequence[str], *, by_number: bool, now: float
) -> None:
    """Take all other nodes from a running job; its tasks change only with the number of nodes."""
    if by_number:
        job.asked = replace(job.asked, tasks=min(job.asked.tasks, len(keep)))
    lifecycle.shrink(cluster, job, keep, now=now)


def _ask_anew(cluster: Cluster, job: Job, fields: Mapping[str, Any], *, now: float) -> None:
    """Change what a pending job asks of nodes, with the same checks as a submit.

    An empty text leaves a field as it is, except that it removes a reservation. One empty name
    removes the required or the excluded nodes. With another number of nodes or tasks the job needs
    another number of CPUs (measured).
    """
    given = {name: value for name, value in fields.items() if value or name in _REMOVABLE}
    if "partition" in fields:
        _check_partition(cluster, fields["partition"])
    described = {**job.asked.described, **given}
    if not given.keys().isdisjoint({"nodes", "tasks"}) and "minimum_cpus" not in given:
        described.pop("minimum_cpus", None)
    # An operator may have set an account or QoS that a submit may not name, so they are not checked
    # again.
    account, qos = job.asked.account, job.asked.qos
    described = {k: value for k, value in described.items() if k not in {"account", "qos"}}
    anew = submission(cluster, described, job.asked.script, user="root", now=now)
    job.asked = replace(anew, account=account, qos=qos)
    job.misfit = misfit(cluster, job.asked.request)
    job.reason, job.reason_text = "None", ""


def _check_partition(cluster: Cluster, name: str) -> None:
    if name and name not in cluster.partitions:
        raise SlurmError(2000)
    if not name and cluster.config.release is Release.V24_11:
        raise SlurmError(2000)
    _stumble(cluster)


def _stumble(cluster: Cluster) -> None:
    """Raise SlurmError 11 on every second call for a cluster without slurmdbd.

    There a change of partition or account fails now and then with a stale errno (measured on both
    releases).
    """
    if cluster.accounts is None:
        cluster.stumbles += 1
        if cluster.stumbles % 2:
            raise SlurmError(11)


def _apply(cluster: Cluster, job: Job, fields: Mapping[str, Any], *, operator: bool) -> int:
    """Change the remaining fields; return the error number of a refused one, else 0."""
    for name in ("comment", "admin_comment", "extra", "dependency"):
        if name in fields:
            setattr(job, name, fields[name])
    if "name" in fields:
        cluster.rename(job, fields["name"])
    if "time_limit" in fields:
        job.time_limit_minutes = fields["time_limit"]
    if "deadline" in fields:
        job.give_up_at = fields["deadline"] or 0.0
    if "begin_time" in fields:
        job.begin_time = fields["begin_time"] or 0.0
    refused = _set_priority(job, fields) if "priority" in fields else 0
    # Once a priority has been set, nice is accepted and ignored (measured).
    if "nice" in fields and (job.held or not job.priority_set):
        job.nice = fields["nice"]
    if not refused:
        _hold(job, fields.get("hold"), operator=operator)
    _account(cluster, job, fields, operator=operator)
    return refused


def _set_priority(job: Job, fields: Mapping[str, Any]) -> int:
    """Set the priority: 0 holds the job, None leaves the priority to Slurm again.

    Returns 0, or error 2042 for any other value if the job is held.
    """
    value = fields["priority"]
    if job.held and value:
        return 2042
    if value == 0 or job.held:
        job.reason = "JobHeldAdmin" if value == 0 else "None"
    job.priority, job.priority_set = 1 if value is None else value, value is not None
    return 0


def _hold(job: Job, hold: bool | None, *, operator: bool) -> None:
    if hold is True and job.priority:
        job.priority = 0
        job.reason = "JobHeldAdmin" if operator else "JobHeldUser"
    elif hold is False and job.priority == 0:
        job.priority, job.priority_set, job.reason = 1, False, "None"


def _account(cluster: Cluster, job: Job, fields: Mapping[str, Any], *, operator: bool) -> None:
    """Change account and QoS; without slurmdbd both are accepted and ignored (measured)."""
    if cluster.accounts is None and "account" in fields:
        _stumble(cluster)
    account, qos = accounting.changed(cluster, job, fields, operator=operator)
    job.asked = replace(job.asked, account=account, qos=qos)


def update_node(
    cluster: Cluster, node: Node, fields: Mapping[str, Any], *, user: str, now: float
) -> None:
    """Change a node; raises SlurmError 2180 (24.11: 2028) for a state that cannot be set."""
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
        for job in [cluster.jobs[job_id] for job_id in cluster.pending]:
            job.misfit = misfit(cluster, job.asked.request)
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
