"""Nodes, partitions, reservations, licenses, statistics and settings as slurmrestd writes them."""

from collections.abc import Mapping
from typing import Any

from .cluster import Cluster
from .config import PartitionConfig, ReservationConfig
from .hostlist import fold
from .records import Node, State
from .scheduling import licenses_held
from .shapes import Shape
from .wire import Wire, indices, memory, number, tres


def node_record(cluster: Cluster, node: Node, shape: Shape) -> Wire:
    """Return a whole node record."""
    config = node.config
    return {
        **shape.node,
        "name": config.name,
        "address": node.address or config.name,
        "instance_id": node.instance_id,
        "hostname": config.name,
        "state": node.states,
        "cpus": config.cpus,
        "effective_cpus": config.cpus,
        "sockets": config.sockets or config.cores,
        "cores": config.cores_per_socket,
        "threads": config.threads_per_core,
        "weight": config.weight,
        "real_memory": config.memory_mib,
        "alloc_cpus": node.cpus_counted,
        "alloc_idle_cpus": config.cpus - node.cpus_counted,
        "alloc_memory": node.memory_counted,
        "tres": tres(config.cpus, config.memory_mib, 0),
        "tres_used": _tres_used(node),
        "gres": ",".join(_gres(p.name, p.type, p.count) for p in node.pools),
        "gres_used": _gres_used(node),
        "features": node.features,
        "active_features": node.features,
        "partitions": node.partitions,
        "reason": node.reason,
        "reason_set_by_user": node.reason_user,
        "reason_changed_at": number(node.reason_time),
        "comment": node.comment,
        "extra": node.extra,
        "last_busy": number(node.last_busy),
        "version": "" if config.external else cluster.config.release.full,
    }


def _tres_used(node: Node) -> str:
    counted = f"cpu={node.cpus_counted},mem={memory(node.memory_counted)}"
    return counted if node.cpus_counted else ""


def _gres(name: str, kind: str, count: int) -> str:
    return f"{name}:{kind}:{count}" if kind else f"{name}:{count}"


def _gres_used(node: Node) -> str:
    parts = []
    for pool, used, unseen in zip(node.pools, node.gres_used, node.gres_unseen, strict=True):
        bits = used & ~unseen
        shown = _gres(pool.name, pool.type, bits.bit_count())
        where = "" if node.config.external else f"({indices(bits << pool.first)})"
        parts.append(shown + where)
    return ",".join(parts)


def partition_record(cluster: Cluster, partition: PartitionConfig, shape: Shape) -> Wire:
    """Return a whole partition record."""
    nodes = [node.config for node in cluster.partition_nodes(partition.name)]
    cpus, memory = sum(n.cpus for n in nodes), sum(n.memory_mib for n in nodes)
    base = shape.partition
    record = {
        **base,
        "name": partition.name,
        "nodes": {
            "allowed_allocation": "",
            "configured": fold(sorted(node.name for node in nodes)),
            "total": len(nodes),
        },
        "cpus": {**base["cpus"], "total": cpus},
        "tres": {"billing_weights": "", "configured": tres(cpus, memory, len(nodes))},
        "grace_time": partition.grace_time,
        "priority": {"job_factor": 1, "tier": partition.priority_tier},
        "partition": {**base["partition"], "state": [partition.state]},
        "maximums": {**base["maximums"], "time": number(partition.max_time_minutes)},
    }
    if partition.default_time_minutes is not None:
        time = number(partition.default_time_minutes)
        record["defaults"] = {**base["defaults"], "time": time}
    if "flags" in base:
        record["flags"] = ["DEFAULT"] if partition.default else []
        record["preempt_mode"] = [partition.preempt_mode]
    return record


def reservation_record(cluster: Cluster, reservation: ReservationConfig) -> Wire:
    """Return a reservation record with the fields that the model knows."""
    nodes = [cluster.nodes[name].config for name in reservation.nodes]
    return {
        "name": reservation.name,
        "node_count": len(nodes),
        "node_list": fold(reservation.nodes),
        "core_count": sum(node.cores for node in nodes),
        "start_time": number(reservation.start_time),
        "end_time": number(reservation.end_time),
        "flags": ["SPEC_NODES"],
        "partition": "",
        "users": "",
        "accounts": "",
        "features": "",
        "licenses": "",
        "tres": f"cpu={sum(node.cpus for node in nodes)}",
    }


def license_records(cluster: Cluster) -> list[Wire]:
    """Return all licenses and how many are held."""
    held = licenses_held(cluster)
    return [
        {
            "LicenseName": name,
            "Total": total,
            "Used": held.get(name, 0),
            "Free": total - held.get(name, 0),
            "Remote": False,
            "Reserved": 0,
        }
        for name, total in cluster.config.licenses.items()
    ]


def statistics(cluster: Cluster, shape: Shape, *, now: float) -> Wire:
    """Return the counters of diag/."""
    counted = cluster.counters
    running = sum(cluster.jobs[i].state is State.RUNNING for i in cluster.active)
    return {
        **shape.statistics,
        "req_time": number(now),
        "req_time_start": number(cluster.boot_time),
        "job_states_ts": number(now),
        "schedule_cycle_total": counted.cycles,
        "jobs_submitted": counted.submitted,
        "jobs_started": counted.started,
        "jobs_completed": counted.completed,
        "jobs_canceled": counted.canceled,
        "jobs_failed": counted.failed,
        "jobs_pending": len(cluster.pending),
        "jobs_running": running,
    }


def configuration(cluster: Cluster, conf: Mapping[str, Any], *, now: float) -> Wire:
    """Return the conf answer (v0.0.45 only)."""
    config = cluster.config
    return {
        "slurm_conf": {
            **conf,
            "ClusterName": config.cluster_name,
            "AccountingStorageType": (
                "" if cluster.accounts is None else "accounting_storage/slurmdbd"
            ),
            "KillWait": config.kill_wait,
            "PrologSlurmctld": [config.prolog_slurmctld] if config.prolog_slurmctld else [],
            "MaxJobCount": config.max_job_count,
            "MaxNodeCount": len(cluster.nodes),
            "MinJobAge": config.min_job_age,
            "controllers": [{"address": "127.0.0.1", "machine": config.controller_host}],
        },
        "slurm_conf_meta": {
            "LastUpdate": int(now),
            "BOOT_TIME": int(cluster.boot_time),
            "ClusterId": number(0),
            "HashValue": 0,
            "NEXT_JOB_ID": number(cluster.next_id),
            "SLURM_CONF": "/etc/slurm/slurm.conf",
            "SLURM_VERSION": config.release.full,
        },
    }
