"""What the doctor reads of two healthy servers, and how a test changes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from scheduler.config.settings import Settings
from scheduler.doctor.checks import CHECKS, run_checks
from scheduler.doctor.facts import AdmissionPolicy, Facts, KubeFacts, Pair, PodsOnNodes, SlurmFacts
from scheduler.doctor.finding import Finding, Severity
from scheduler.doctor.of_slurm_conf import FAST
from scheduler.doctor.rights import rights_used
from scheduler.kube.wire import Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta
from slurmapi import ApiVersion, Ping, SlurmConfig, SlurmNode
from slurmapi.jwt import Lifetime

NOW: Final = 1_800_000_000.0
DAY: Final = 86_400.0
ALLOCATABLE: Final = {"cpu": "64", "memory": "2000Mi", "nvidia.com/gpu": "8"}
CONFIG: Final = SlurmConfig(
    kill_wait=60,
    min_job_age=300,
    accounting_storage="accounting_storage/slurmdbd",
    accounting_enforce=("associations", "limits", "qos"),
    scheduler_parameters=tuple(FAST.split(",")),
    preempt_type="preempt/partition_prio",
    preempt_modes=("CANCEL",),
    slurm_user="slurm",
)


def slurm_node(name: str, **more: Any) -> SlurmNode:
    given = {"states": frozenset({"IDLE", "EXTERNAL"}), "cpus": 64, "memory_mib": 2000}
    whole = {**given, "gres": "gpu:h100:8", **more}
    return SlurmNode(name=name, **{"job_cpus": whole["cpus"], **whole})


def kube_node(
    name: str, there: Mapping[str, str] = ALLOCATABLE, *, ready: bool = True, cordoned: bool = False
) -> Node:
    return Node(
        metadata=ObjectMeta(name=name, uid=name, resource_version="1"),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(
            conditions=(NodeCondition("Ready", str(ready)),), allocatable={**ALLOCATABLE, **there}
        ),
    )


def pair(name: str, node: Node | None = None, **of_slurm: Any) -> Pair:
    found = node or kube_node(name)
    return Pair(slurm_node(name, **of_slurm), name, node=found)


def healthy(**settings: Any) -> Facts:
    """Two nodes, and nothing to complain of. `settings` are those of the scheduler."""
    given = Settings.model_validate(
        {"slurm-kill-wait": 60, **{key.replace("_", "-"): it for key, it in settings.items()}}
    )
    pairs = (pair("a"), pair("b"))
    return Facts(
        settings=given,
        now=NOW,
        slurm=SlurmFacts(
            where="http://slurm.example:6820",
            token="file /token",
            user="slurm",
            lifetime=Lifetime(NOW - DAY / 2, NOW + DAY / 2),
            cluster="lab",
            version=ApiVersion(45),
            ping=Ping(responding=True, status="UP", release="26.05.5"),
            config=CONFIG,
            nodes=tuple(it.slurm for it in pairs),
        ),
        kube=KubeFacts(
            server="https://kube.example",
            version="v1.36.3",
            seconds_off=0.2,
            own_namespace="here",
            rights=dict.fromkeys(rights_used(given, own="here"), True),
            absent=(),
            policies=(AdmissionPolicy("slurm-pod-scheduler-pods", {}, bound=True),),
            nodes=tuple(it.node for it in pairs if it.node is not None),
        ),
        pairs=pairs,
        crowd=PodsOnNodes({}, {}),
        slurm_seconds_off=-0.2,
    )


def with_slurm(facts: Facts, **changes: Any) -> Facts:
    return replace(facts, slurm=replace(facts.slurm, **changes))


def with_config(facts: Facts, **changes: Any) -> Facts:
    return with_slurm(facts, config=msgspec.structs.replace(CONFIG, **changes))


def with_kube(facts: Facts, **changes: Any) -> Facts:
    return replace(facts, kube=replace(facts.kube, **changes))


def with_pairs(facts: Facts, pairs: Iterable[Pair]) -> Facts:
    return replace(facts, pairs=tuple(pairs))


def told(facts: Facts, check: str) -> list[tuple[str, str]]:
    """Severity and text of each finding of the check. Holds that none is worse than the table in
    docs/doctor.md says, and that what is bad has a remedy.
    """
    (worst,) = (it.worst for it in CHECKS if it.name == check)
    found = [it for it in run_checks(facts) if it.check == check]
    assert all(it.severity <= worst for it in found)
    assert all(it.remedy for it in found if it.severity >= Severity.WARNING)
    return [(it.severity.word, it.what) for it in found]


def only(facts: Facts, check: str) -> Finding:
    """The only finding of the check."""
    (found,) = (it for it in run_checks(facts) if it.check == check)
    assert told(facts, check)
    return found
