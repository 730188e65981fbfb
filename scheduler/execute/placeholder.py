"""Builds the Slurm job that stands for a pod, from the pod's request.

Its JSON for each version of the API: `slurmapi/submission.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal

from msgspec.structs import replace

from annotations import JobRequest, Sharing, Switches
from scheduler.core.edits import digests
from scheduler.core.naming import job_name
from scheduler.core.owner_tag import PACKED, PINNED_APART, SEVERAL, SINGLE, Owner, OwnerTag, TagPart
from scheduler.core.slot_choice import Seat
from slurmapi import JobSubmission

Mode = Literal["external", "script"]

CLAIM_PRIORITY: Final = 2**32 - 16
"""The priority of a job for a pod that already runs. It is higher than those that priority/basic
gives, which count down from 0xffff0000: a job ahead of it could only take the pod's node.
"""

_ENVIRONMENT: Final = {"PATH": "/usr/local/bin:/usr/bin:/bin"}

SCRIPT_MEMORY_MIB: Final = 32
"""The least memory that a script job requests, because the script itself needs some: 4 MiB at rest,
and 18 MiB (24 if sh is bash) while it asks the hooks API (measured on 26.05.5 and 24.11.5). If
Slurm enforces memory limits, it kills a script that has less.
"""

SCRIPT: Final = (files("scheduler.execute") / "placeholder.sh").read_text(encoding="utf-8")

# The words that data_parser uses. All but one are the same as in our annotation.
_SHARED: Final[Mapping[Sharing | None, str]] = {
    **{sharing: sharing.value for sharing in Sharing},
    Sharing.OK: "oversubscribe",
}


def submission(
    request: JobRequest,
    *,
    owner: Owner,
    mode: Mode,
    namespace: str,
    name: str,
    key: str,
    seats: Sequence[Seat],
    group: str = "",
    per_node: int = 1,
    nodes: Sequence[str] = (),
    first: bool = False,
    minutes: int | None = None,
    tries: int = 0,
    until: int = 0,
    grace_seconds: int | None = None,
    excluded: Sequence[str] = (),
    environment: Mapping[str, str] = MappingProxyType({}),
    sharing: Sharing | None = None,
    parts: Sequence[TagPart] = (),
) -> JobSubmission:
    """The job for the unit with this `key`, with a slot for each of these `seats`, `per_node` on
    each node (or PACKED). The unit is a gang if it has a `group`, and a single pod otherwise.

    `nodes` pins the job to the nodes on which pods already run. `first` puts it ahead of all others
    in the queue. `excluded` are nodes to avoid; they are ignored with `nodes`, and where no
    required node would be left. `minutes` is its time limit, if it differs from the request's.
    `tries` says how many jobs have been submitted in place of lost ones, including this one, and
    `until` when the pod's time is over, in Unix seconds (NO_END if never, 0 if not known). The pods
    have `grace_seconds` to stop. `environment` tells the script how to reach the hooks API.
    `sharing` says who else may use the node; it applies only if the request does not say. If there
    are `parts`, the job is the first component of a heterogeneous one, and has the seats of the
    first of them; `component` has the others.
    """
    tag = OwnerTag(
        v=SEVERAL if group else SINGLE,
        cluster=owner.cluster,
        scheduler=owner.scheduler,
        namespace=namespace,
        unit=name,
        uids=tuple(seat.uid for seat in seats),
        node=PINNED_APART.join(nodes),
        tries=tries,
        until=until,
        grace=grace_seconds,
        asked=dict(digests(request)),
        unit_key=key if group else "",
        group=group,
        ranks=tuple(seat.rank for seat in seats) if group else (),
        names=tuple(seat.name for seat in seats) if group else (),
        per_node=1 if parts else per_node,
        parts=tuple(parts) if len(parts) > 1 else (),
    )
    slots = parts[0].slots if parts else len(seats)
    job = JobSubmission(
        name=job_name(namespace, name, key),
        external=mode == "external",
        script=None if mode == "external" else SCRIPT,
        environment={**_ENVIRONMENT, **environment},
        admin_comment=tag.encode(),
        cpus=request.cpus,
        memory_mib=request.memory_mib if mode == "external" else _for_script(request.memory_mib),
        **_layout(slots, per_node),
        gres=request.gres,
        partition=request.partition,
        account=request.account,
        qos=request.qos,
        reservation=request.reservation,
        comment=request.comment,
        time_limit_minutes=request.time_limit_minutes if minutes is None else minutes,
        user_id=request.user_id,
        group_id=request.group_id,
        licenses=request.licenses,
        wckey=request.wckey,
        deadline=request.deadline,
        priority=CLAIM_PRIORITY if first else request.priority,
        nice=None if first else request.nice,
        shared=_SHARED.get(request.exclusive or sharing),
        threads_per_core=request.threads_per_core,
        requeue=request.requeue and not nodes,
        kill_on_node_fail=not request.no_kill,
        required_nodes=tuple(nodes),
    )
    if request.working_directory is not None:
        job = replace(job, working_directory=request.working_directory)
    return job if nodes else _with_start_conditions(job, request, excluded=excluded)


def component(
    first: JobSubmission,
    request: JobRequest,
    *,
    part: TagPart,
    nodes: Sequence[str] = (),
    excluded: Sequence[str] = (),
    sharing: Sharing | None = None,
) -> JobSubmission:
    """A further component of the job whose first one is given, for pods with this request. Only the
    first has the owner tag, and the licenses, which are for the whole job.
    """
    more = replace(
        first,
        admin_comment="",
        licenses=None,
        cpus=request.cpus,
        memory_mib=request.memory_mib if first.external else _for_script(request.memory_mib),
        gres=request.gres,
        **_layout(part.slots, part.per_node),
        shared=_SHARED.get(request.exclusive or sharing),
        required_nodes=tuple(nodes),
        excluded_nodes=(),
    )
    return more if nodes else _with_start_conditions(more, request, excluded=excluded)


def _layout(slots: int, per_node: int) -> dict[str, Any]:
    """This many slots on each node, or a number of tasks for which Slurm finds the nodes."""
    if per_node == PACKED:
        return {"nodes": None, "tasks": slots, "tasks_per_node": 1}
    return {"nodes": -(-slots // per_node), "tasks": None, "tasks_per_node": per_node}


def _for_script(memory_mib: int) -> int:
    return max(memory_mib, SCRIPT_MEMORY_MIB)


def _with_start_conditions(
    job: JobSubmission, request: JobRequest, *, excluded: Sequence[str]
) -> JobSubmission:
    """Add what a pod may request about when and where its job starts. None of it applies to a pod
    that already runs: Slurm would refuse a dependency on a job that it has forgotten, and a hold
    would leave a running pod without a job.
    """
    switches = request.switches
    left = tuple(_nodes_without(request.required_nodes, excluded))
    return replace(
        job,
        # Slurm refuses a node that is both required and excluded (2018, measured).
        required_nodes=left or tuple(request.required_nodes),
        excluded_nodes=tuple(
            dict.fromkeys(
                (*request.excluded_nodes, *_nodes_without(excluded, request.required_nodes))
            )
        ),
        constraints=request.constraints,
        prefer=request.prefer,
        begin=request.begin,
        dependency=request.dependency,
        switches=None if switches is None else switches.count,
        contiguous=request.contiguous,
        segment_size=request.segment,
        switch_wait_seconds=None if switches is None else _wait_seconds(switches),
        held=request.hold,
    )


def _nodes_without(nodes: Collection[str], others: Collection[str]) -> list[str]:
    without = frozenset(others)
    return [node for node in nodes if node not in without]


def _wait_seconds(switches: Switches) -> int | None:
    return None if switches.wait_minutes is None else 60 * switches.wait_minutes
