"""Turns a parsed job description into a submission, or refuses it with Slurm's error number.

The checks, their order and their numbers were measured on 26.05.5 and 24.11.5 without slurmdbd;
those about accounts and QOS were measured with it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from . import accounting, constraints
from .cluster import Cluster
from .config import Release
from .dependencies import check as check_dependency
from .errors import SlurmError
from .hostlist import expand
from .placement import Room, place
from .records import GresRequest, Request, Submission
from .times import read_time

_LONGEST: Final = 1024
_LARGEST_NICE: Final = 2**31 - 3
_LARGEST_PRIORITY: Final = 2**32 - 3
_SWITCH_WAIT_SECONDS: Final = 300
_GRES: Final = re.compile(r"gres/(?P<name>\w+)(?::(?P<type>[A-Za-z]\w*))?(?::(?P<count>\d+))?")


def submission(
    cluster: Cluster, fields: Mapping[str, Any], script: str | None, *, user: str, now: float
) -> Submission:
    """Return what the job asks for; raises SlurmError if slurmctld would refuse the submit."""
    external = "EXTERNAL_JOB" in fields.get("flags", ())
    user_name, user_id = _owner(cluster, fields, user=user)
    _check_texts(fields, operator=user in cluster.config.operators)
    _check_script(cluster, fields, script, external=external)
    account, qos = accounting.asked(cluster, fields, user=user_name)
    check_reservation(cluster, fields)
    begin, deadline = (_moment(fields.get(name), now) for name in ("begin_time", "deadline"))
    check_dependency(cluster, fields.get("dependency", ""))
    nice = _nice(fields, operator=user in cluster.config.operators)
    request = _request(cluster, fields, external=external, user_id=user_id)
    time_limit = _time_limit(cluster, fields, request.partition)
    if deadline and max(now, begin) + 60 * (time_limit or 0) >= deadline:
        raise SlurmError(2051)
    few_tasks = "tasks" in fields and fields["tasks"] < request.min_nodes
    if few_tasks and cluster.config.release is Release.V26_05:
        raise SlurmError(2025)
    return Submission(
        request=request,
        user_id=user_id,
        user_name=user_name,
        group_id=_group(cluster, fields, user=user),
        account=account,
        qos=qos,
        script=script,
        licenses=_licenses(cluster, fields.get("licenses", "")),
        tasks=_tasks(fields, nodes=request.min_nodes),
        tasks_per_node=fields.get("tasks_per_node", 0),
        cpus_per_task=max(1, fields.get("cpus_per_task", 1)),
        requeue=fields.get("requeue", True),
        kill_on_node_fail=fields.get("kill_on_node_fail", True),
        default_partition="partition" not in fields,
        memory_given=request.memory_mib + request.memory_per_cpu > 0 or "memory_per_node" in fields,
        working_directory=fields.get("current_working_directory", ""),
        begin_time=begin,
        deadline=deadline,
        priority=_priority(fields.get("priority")),
        nice=nice,
        shared=tuple(fields.get("shared", ())),
        license_text=fields.get("licenses", ""),
        switches=fields.get("required_switches") or 0,
        switch_wait=fields.get("wait_for_switch", _SWITCH_WAIT_SECONDS),
        segment_size=fields.get("segment_size") or 0,
        described={**fields, "user_id": str(user_id)},
        held=bool(fields.get("hold")) and fields.get("priority") is None,
        time_limit_minutes=time_limit,
        **{name: fields.get(name, "") for name in _TEXTS},
    )


_TEXTS: Final = (
    "name",
    "tres_per_node",
    "tres_per_task",
    "dependency",
    "admin_comment",
    "comment",
    "extra",
    "prefer",
    "standard_error",
    "standard_output",
    "wckey",
)


def misfit(cluster: Cluster, request: Request) -> str:
    """Return the reason if no nodes of the partition can ever run this, else an empty string."""
    return cluster.remembered(request, _misfit)


def _misfit(cluster: Cluster, request: Request) -> str:
    """Check whether the request would fit if all nodes were empty.

    Too many nodes have a reason of their own, on 26.05 too many CPUs as well. 26.05 keeps such jobs
    waiting for a better partition; 24.11 does so only if they were held when they were submitted.
    """
    nodes = cluster.candidates(request)
    if place(request, [Room.empty(node) for node in nodes]) is not None:
        return ""
    partition = list(cluster.partition_nodes(request.partition))
    if request.min_nodes > len(partition):
        return "PartitionNodeLimit"
    if cluster.config.release is Release.V24_11:
        return "BadConstraints"
    if request.cpus > sum(node.config.cpus for node in partition):
        return "PartitionConfig"
    return "BadConstraints"


def _owner(cluster: Cluster, fields: Mapping[str, Any], *, user: str) -> tuple[str, int]:
    """Return name and id of the user that the job runs as; only operators may name another."""
    users = cluster.config.users
    if user not in users and cluster.config.release is Release.V26_05:
        raise SlurmError(6010)
    asked = fields.get("user_id", "")
    if not asked:
        return user, users.get(user, 65534)
    if not asked.isdigit() and asked not in users:
        raise SlurmError(2166, f"Unable to resolve user: {asked}", source="#/job/user_id/")
    user_id = int(asked) if asked.isdigit() else users[asked]
    if user not in cluster.config.operators and user_id != users.get(user):
        raise SlurmError(2010)
    names = {number: name for name, number in users.items()}
    return names.get(user_id, ""), user_id


def _group(cluster: Cluster, fields: Mapping[str, Any], *, user: str) -> int:
    """Return the group id, by default that of the token's user, even in a job for another user."""
    text = str(fields.get("group_id", ""))
    return int(text) if text.isdigit() else cluster.config.users.get(user, 65534)


def _moment(value: float | str | None, now: float) -> float:
    return read_time(value, now=now) if isinstance(value, str) else float(value or 0)


def _nice(fields: Mapping[str, Any], *, operator: bool) -> int:
    nice = int(fields.get("nice", 0))
    if abs(nice) > _LARGEST_NICE:
        raise SlurmError(2123, f"Nice value not within +/- {_LARGEST_NICE}", source="#/job/nice/")
    if nice < 0 and not operator:
        raise SlurmError(2123)
    return nice


def _priority(asked: int | None) -> int | None:
    """Return the requested priority; one that is out of range counts as none."""
    return asked if asked is not None and 0 <= asked <= _LARGEST_PRIORITY else None


def check_lengths(fields: Mapping[str, Any]) -> None:
    """Raise SlurmError 2012 for a text that has more bytes than slurmctld allows."""
    texts = (fields.get(name, "") for name in ("name", "comment", "extra", "wckey"))
    if any(len(text.encode()) > _LONGEST for text in texts):
        raise SlurmError(2012)


def _check_texts(fields: Mapping[str, Any], *, operator: bool) -> None:
    check_lengths(fields)
    if fields.get("admin_comment") and not operator:
        raise SlurmError(2002)


def _check_script(
    cluster: Cluster, fields: Mapping[str, Any], script: str | None, *, external: bool
) -> None:
    if external and script is not None:
        raise SlurmError(2189)
    if external and fields.get("array"):
        raise SlurmError(2081)
    if external:
        return
    if not fields.get("environment"):
        raise SlurmError(2127 if cluster.config.release is Release.V26_05 else 2019)
    if not fields.get("current_working_directory"):
        raise SlurmError(2063)


def check_reservation(cluster: Cluster, fields: Mapping[str, Any]) -> None:
    """Raise SlurmError 2053 for a reservation that does not exist."""
    reservation = fields.get("reservation", "")
    if reservation and cluster.reservation(reservation) is None:
        raise SlurmError(2053)


def _licenses(cluster: Cluster, text: str) -> tuple[tuple[str, int], ...]:
    wanted: list[tuple[str, int]] = []
    for entry in filter(None, text.split(",")):
        name, _, count = entry.partition(":")
        if not (count or "1").isdigit() or int(count or 1) > cluster.config.licenses.get(name, 0):
            raise SlurmError(2048)
        wanted.append((name, int(count or 1)))
    return tuple(wanted)


def _time_limit(cluster: Cluster, fields: Mapping[str, Any], partition: str) -> int | None:
    """Return the limit in minutes, None for no limit; 0 asks for the partition's maximum."""
    asked: int | None = fields.get("time_limit")
    if asked:
        return asked
    settings = cluster.partitions[partition]
    if asked == 0:
        return settings.max_time_minutes
    return settings.default_time_minutes


def _request(
    cluster: Cluster, fields: Mapping[str, Any], *, external: bool, user_id: int
) -> Request:
    partition = _partition(cluster, fields.get("partition", ""))
    required, excluded = (_nodes(fields, name) for name in ("required_nodes", "excluded_nodes"))
    _check_nodes(cluster, required, excluded)
    least, most = _node_counts(fields)
    tasks, per_task = _tasks(fields, nodes=least), max(1, fields.get("cpus_per_task", 1))
    per_node = fields.get("tasks_per_node", 0)
    if per_node:
        least = max(least, -(-tasks // per_node))
    each = fields.get("minimum_cpus_per_node", 1)
    if cluster.config.release is Release.V26_05:
        # Also on a node that gets fewer tasks (measured).
        each = max(each, per_node * per_task)
    cpus = max(fields.get("minimum_cpus", 1), tasks * per_task, least * each)
    return Request(
        partition=partition,
        cpus=cpus,
        cpus_per_node=-(-cpus // least),
        task_cpus=per_task,
        most_per_node=per_node * per_task,
        min_nodes=max(least, len(required) if most is None else min(most, len(required))),
        max_nodes=most,
        memory_mib=int(fields.get("memory_per_node") or 0),
        memory_per_cpu=int(fields.get("memory_per_cpu") or 0),
        gres=_gres(cluster, fields.get("tres_per_node", "")),
        task_gres=_gres(cluster, fields.get("tres_per_task", "")),
        contiguous=bool(fields.get("contiguous")),
        constraint=_constraint(cluster, fields),
        required=tuple(sorted(required)),
        excluded=frozenset(excluded),
        exclusive=fields.get("shared") == ["none"],
        sole_user=fields.get("shared") == ["user"],
        user_id=user_id,
        threads_per_core=_threads(cluster, fields),
        external=external,
        reservation=fields.get("reservation", ""),
    )


def _check_nodes(cluster: Cluster, required: Sequence[str], excluded: Sequence[str]) -> None:
    """Raise SlurmError 2018 for unknown nodes, and for nodes both required and excluded.

    24.11 accepts unknown required nodes if it knows at least one of the required ones.
    """
    known = cluster.nodes.keys()
    enough = cluster.config.release is Release.V24_11 and not known.isdisjoint(required)
    if not (enough or known >= set(required)) or not known >= set(excluded):
        raise SlurmError(2018)
    if not set(required).isdisjoint(excluded):
        raise SlurmError(2018)


def _partition(cluster: Cluster, names: str) -> str:
    """Return the partition; of several the one with the highest tier, which Slurm tries first."""
    if not names:
        names = next((p.name for p in cluster.partitions.values() if p.default), "")
    listed = names.split(",")
    if not cluster.partitions.keys() >= set(listed):
        raise SlurmError(2000)
    return max(listed, key=lambda name: cluster.partitions[name].priority_tier)


def _node_counts(fields: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the minimum and the maximum of nodes; without a maximum the job may spread."""
    least, most = fields.get("minimum_nodes"), fields.get("maximum_nodes")
    if fields.get("nodes"):
        low, _, high = str(fields["nodes"]).partition("-")
        if not low.isdigit() or not (high or low).isdigit():
            raise SlurmError(9202, source="#/job/nodes/")
        least, most = int(low), int(high or low)
    return max(1, least or 1), most


def _tasks(fields: Mapping[str, Any], *, nodes: int) -> int:
    """Return how many tasks the job has, by default one on each node."""
    return int(fields.get("tasks") or nodes * (fields.get("tasks_per_node") or 1))


def _gres(cluster: Cluster, text: str) -> tuple[GresRequest, ...]:
    """Read tres_per_node or tres_per_task.

    26.05 accepts a text with ``;;`` in it and allocates no device.
    """
    if not text or ";;" in text:
        return ()
    wanted: list[GresRequest] = []
    for entry in text.split(","):
        match = _GRES.fullmatch(entry)
        if match is None:
            raise SlurmError(2115)
        if match["name"] not in cluster.gres_names:
            raise SlurmError(2072)
        wanted.append(GresRequest(match["name"], match["type"] or "", int(match["count"] or 1)))
    untyped = {gres.name for gres in wanted if not gres.type}
    if any(gres.type and gres.name in untyped for gres in wanted):
        raise SlurmError(2119)
    return tuple(wanted)


def _constraint(cluster: Cluster, fields: Mapping[str, Any]) -> str:
    wanted = str(fields.get("constraints", ""))
    _check_features(cluster, wanted, number=2029)
    _check_features(cluster, str(fields.get("prefer", "")), number=2133)
    return wanted.replace(",", "&")


def _check_features(cluster: Cluster, text: str, *, number: int) -> None:
    try:
        names = constraints.read(text).names()
    except constraints.ConstraintError:
        raise SlurmError(number) from None
    if not cluster.features.issuperset(names):
        raise SlurmError(number)


def _threads(cluster: Cluster, fields: Mapping[str, Any]) -> int | None:
    """Return the threads to use of each core; raises SlurmError 2014 if no core has as many."""
    asked: int | None = fields.get("threads_per_core")
    most = max(node.config.threads_per_core for node in cluster.nodes.values())
    if asked is not None and not 1 <= asked <= most:
        raise SlurmError(2014)
    return asked


def _nodes(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the names in a list of nodes, whose entries may be hostlist expressions."""
    return tuple(node for entry in fields.get(name, ()) for node in expand(entry))
