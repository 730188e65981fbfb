"""Job records as slurmrestd writes them: recorded shapes with the model's values in them."""

from typing import Final

from .cluster import Cluster
from .config import Release
from .dependencies import Dependency, terms
from .hostlist import fold
from .records import STARTED, Exit, Job, Node, Share, State
from .shapes import Shape
from .wire import Wire, indices, number, tres, unset

_YEAR: Final = 365 * 24 * 3600
_UNFULFILLED: Final = {Dependency.WAITING: "unfulfilled", Dependency.NEVER: "failed"}
_SIGNALS: Final = {0: "", 1: "HUP", 9: "KILL", 15: "TERM"}


def states(job: Job) -> list[str]:
    """Return the job's base state and its flags."""
    flags = {
        "CONFIGURING": job.configuring and job.state is State.RUNNING,
        "COMPLETING": job.completing,
        "SIGNALING": job.signalling_until > 0,
    }
    return [job.state.value, *(name for name, given in flags.items() if given)]


def job_record(cluster: Cluster, job: Job, shape: Shape) -> Wire:
    """Return a whole job record; ``shape`` decides which fields it has."""
    record = {**shape.job, **_identity(cluster, job), **_times(job), **_wants(cluster, job)}
    record.update(_holds(cluster, job, shape))
    if "segment_size" in shape.job:
        record["segment_size"] = job.asked.segment_size
    if "step_id" in shape.job:
        record["step_id"] = {
            "sluid": job.sluid,
            "job_id": number(job.id),
            "step_het_component": unset(),
            "step_id": "entire",
        }
    return record


def _identity(cluster: Cluster, job: Job) -> Wire:
    asked = job.asked
    user = asked.user_name
    return {
        "account": asked.account,
        "admin_comment": job.admin_comment,
        "batch_flag": not job.external,
        "cluster": cluster.config.cluster_name,
        "comment": job.comment,
        "current_working_directory": asked.working_directory,
        "dependency": _dependency(cluster, job),
        "exit_code": exit_code(job.exit),
        "extra": job.extra,
        "failed_node": job.failed_node,
        "flags": _flags(job),
        "group_id": asked.group_id,
        "group_name": _group_name(cluster, asked.group_id),
        "het_job_id": number(job.het_id),
        "het_job_id_set": _component_ids(cluster, job),
        "het_job_offset": number(job.het_offset),
        "hold": job.priority == 0 and job.state is not State.SUSPENDED,
        "job_id": job.id,
        "job_state": states(job),
        "mail_user": user,
        "name": job.name,
        "nice": job.nice,
        "partition": asked.request.partition,
        "priority": number(job.priority),
        "qos": asked.qos,
        "requeue": asked.requeue,
        "restart_cnt": job.restart_count,
        "resv_name": asked.request.reservation,
        "standard_error": _output(job, job.asked.standard_error),
        "standard_output": _output(job, job.asked.standard_output),
        "state_description": job.reason_text,
        "state_reason": job.reason,
        "user_id": asked.user_id,
        "user_name": user,
        "wckey": asked.wckey,
    }


def _component_ids(cluster: Cluster, job: Job) -> str:
    ids = [part.id for part in cluster.components(job)] if job.het_id else []
    return f"{ids[0]}-{ids[-1]}" if ids else ""


def _output(job: Job, file: str) -> str:
    """Return the file that the script writes to, by default one in its working directory."""
    if job.asked.script is None:
        return ""
    return file or job.asked.standard_output or f"{job.asked.working_directory}/slurm-{job.id}.out"


def _group_name(cluster: Cluster, group_id: int) -> str:
    """Return the name of a group; each user has a group of the same name and number."""
    return next((name for name, uid in cluster.config.users.items() if uid == group_id), "")


def _dependency(cluster: Cluster, job: Job) -> str:
    """Return the terms that were not fulfilled at the last scheduling pass."""
    now = job.last_evaluation or job.submit_time
    return ",".join(
        f"{term}({_UNFULFILLED[verdict]})"
        for term, verdict in terms(cluster, job, now=now)
        if verdict in _UNFULFILLED
    )


def _flags(job: Job) -> list[str]:
    asked = job.asked
    named = {
        "EXACT_TASK_COUNT_REQUESTED": True,
        "JOB_WAS_RUNNING": job.state in STARTED,
        "EXACT_MEMORY_REQUESTED": asked.memory_given,
        "EXTERNAL_JOB": job.external,
        "USING_DEFAULT_ACCOUNT": not asked.described.get("account"),
        "USING_DEFAULT_PARTITION": asked.default_partition,
        "USING_DEFAULT_QOS": not asked.described.get("qos"),
        "USING_DEFAULT_WCKEY": not asked.wckey,
        "DEPENDENT": bool(job.dependency),
    }
    return [name for name, given in named.items() if given]


def _times(job: Job) -> Wire:
    planned = job.expected_start or job.begin_time
    started = job.start_time if job.state is not State.PENDING else planned
    return {
        "accrue_time": number(job.eligible_time),
        "deadline": number(job.asked.deadline),
        "eligible_time": number(job.eligible_time or job.begin_time),
        "end_time": number(_end_time(job)),
        "last_sched_evaluation": number(job.last_evaluation),
        "preempt_time": number(job.preempt_time),
        "preemptable_time": number(job.start_time if job.shares else 0),
        "start_time": number(started),
        "submit_time": number(job.submit_time),
        "suspend_time": number(job.suspend_time),
        "time_limit": number(job.time_limit_minutes),
    }


def _end_time(job: Job) -> float:
    """Return the real or expected end; without a time limit Slurm expects it after a year."""
    if job.end_time or job.state not in STARTED:
        return job.end_time
    return job.start_time + _YEAR if job.deadline is None else job.deadline


def _wants(cluster: Cluster, job: Job) -> Wire:
    asked, request = job.asked, job.asked.request
    per_cpu = request.memory_per_cpu
    total_memory = per_cpu * request.cpus or request.memory_mib * request.min_nodes
    return {
        "cpus": number(sum(share.cpus for share in job.shares) or request.cpus),
        "contiguous": request.contiguous,
        "cpus_per_task": number(asked.cpus_per_task),
        "excluded_nodes": fold(sorted(request.excluded)),
        "features": asked.prefer if job.preferred else request.constraint,
        "licenses": asked.license_text,
        "max_nodes": number(request.max_nodes or 0),
        "memory_per_cpu": number(per_cpu) if per_cpu else unset(),
        "memory_per_node": unset() if per_cpu else number(request.memory_mib),
        "minimum_cpus_per_node": number(asked.cpus_per_task * max(1, asked.tasks_per_node)),
        "maximum_switch_wait_time": asked.switch_wait if asked.switches else 0,
        "prefer": asked.prefer if job.state is State.PENDING else "",
        "required_switches": asked.switches,
        "shared": _shared(cluster, job),
        "threads_per_core": _threads(request.threads_per_core),
        "node_count": number(len(job.shares) or request.min_nodes),
        "required_nodes": fold(request.required),
        "tasks": number(asked.tasks),
        "tasks_per_node": number(asked.tasks_per_node),
        "tres_per_node": asked.tres_per_node,
        "tres_per_task": asked.tres_per_task,
        "tres_req_str": tres(request.cpus, total_memory, request.min_nodes),
    }


def _shared(cluster: Cluster, job: Job) -> list[str]:
    """Return how the job shares its nodes; 26.05 does not report it."""
    return list(job.asked.shared) if cluster.config.release is Release.V24_11 else []


def _threads(threads: int | None) -> Wire:
    return unset() if threads is None else number(threads)


def _holds(cluster: Cluster, job: Job, shape: Shape) -> Wire:
    shares = job.shares
    cpus = sum(share.cpus for share in shares)
    memory = sum(share.memory_mib for share in shares)
    return {
        "batch_host": job.batch_host,
        "billable_tres": {"set": bool(shares), "infinite": False, "number": float(cpus)},
        "gres_detail": _gres_details(cluster, job) if job.state in STARTED else [],
        "job_resources": _resources(cluster, shares, shape) if shares else None,
        "nodes": fold(share.node for share in shares),
        "tres_alloc_str": tres(cpus, memory, len(shares)) if shares else "",
    }


def exit_code(ended: Exit) -> Wire:
    """Return the exit code structure."""
    signalled = ended.status == "SIGNALED"
    return {
        "status": [ended.status],
        "return_code": unset() if signalled else number(ended.return_code),
        "signal": {
            "id": number(ended.signal) if signalled else unset(),
            "name": _SIGNALS.get(ended.signal, str(ended.signal)),
        },
    }


def _gres_details(cluster: Cluster, job: Job) -> list[str | None]:
    """Return each node's devices; their indices are known only for nodes with a slurmd."""
    if any(share.leaky for share in job.shares):
        return [None] * len(job.shares)
    details = (_gres_detail(cluster.nodes[share.node], share) for share in job.shares)
    return [detail for detail in details if detail]


def _gres_detail(node: Node, share: Share) -> str:
    parts = []
    for index, bits in share.devices:
        pool = node.pools[index]
        kind = f"{pool.name}:{pool.type}" if pool.type else pool.name
        count = bits.bit_count()
        shown = (
            f"(CNT:{count})" if node.config.external else f":{count}({indices(bits << pool.first)})"
        )
        parts.append(f"{kind}{shown}")
    return ",".join(parts)


def _resources(cluster: Cluster, shares: tuple[Share, ...], shape: Shape) -> Wire:
    if not shape.select_type:
        return _resources_v40(cluster, shares)
    return {
        "select_type": shape.select_type,
        "nodes": {
            "count": len(shares),
            "select_type": ["ONE_ROW"],
            "list": fold(share.node for share in shares),
            "whole": False,
            "allocation": [
                _allocation(index, cluster.nodes[share.node], share)
                for index, share in enumerate(shares)
            ],
        },
        "cpus": sum(share.cpus for share in shares),
        "threads_per_core": unset(),
    }


_CORES: Final = {
    (index, held): {"index": index, "status": ["ALLOCATED" if held else "UNALLOCATED"]}
    for index in range(512)
    for held in (0, 1)
}


def _allocation(index: int, node: Node, share: Share) -> Wire:
    size = node.config.cores_per_socket
    return {
        "index": index,
        "name": share.node,
        "cpus": {"count": share.cpus, "used": 0},
        "memory": {"used": 0, "allocated": share.memory_mib},
        "sockets": [
            {
                "index": first // size,
                "cores": [_CORES[i, share.cores >> first + i & 1] for i in range(size)],
            }
            for first in range(0, node.config.cores, size)
        ],
    }


def _resources_v40(cluster: Cluster, shares: tuple[Share, ...]) -> Wire:
    """Return the older structure of v0.0.40, which lists only the cores held."""
    return {
        "nodes": fold(share.node for share in shares),
        "allocated_cores": sum(share.cores.bit_count() for share in shares),
        "allocated_cpus": 0,
        "allocated_hosts": len(shares),
        "allocated_nodes": [
            {
                "sockets": _sockets_v40(cluster.nodes[share.node], share),
                "nodename": share.node,
                "cpus_used": 0,
                "memory_used": 0,
                "memory_allocated": share.memory_mib,
            }
            for share in shares
        ],
    }


def _sockets_v40(node: Node, share: Share) -> Wire:
    size = node.config.cores_per_socket
    sockets: dict[str, Wire] = {}
    for core in range(share.cores.bit_length()):
        if share.cores >> core & 1:
            socket = sockets.setdefault(str(core // size), {"cores": {}})
            socket["cores"][str(core % size)] = "allocated"
    return sockets
