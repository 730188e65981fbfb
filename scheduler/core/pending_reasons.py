"""The table of Slurm's pending reasons: what each means to a pod's owner, and what would help.

Names are those of job_state_reason.c, 24.11 to 26.05; squeue(1), JOB REASON CODES, describes them.
`make docs` generates docs/pending.md from it. A reason that is not in the table is shown verbatim.
A new row: CONTRIBUTING.md, "Adding a pending reason", has all the steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from slurmapi.model import BaseState, Job

# Slurm may list thousands of nodes here, which are too many for a condition.
_LONGEST_DESCRIPTION: Final = 300
# Jobs without a time limit count as 365 days long, so a start behind one means nothing.
_NO_FORECAST_SECONDS: Final = 364 * 86400


@dataclass(frozen=True, slots=True)
class Why:
    """One sentence that says what keeps the job from starting, and one that says what to do."""

    meaning: str
    remedy: str


_OPERATORS: Final = "ask the Slurm operators"
_HOLD: Final = "`scontrol release ID` lets it go"
_POLICY: Final = "name another one in the annotation, or ask the Slurm operators to allow it"
_TOO_BIG: Final = "ask for less, or name another partition"

REASONS: Final[Mapping[str, Why]] = {
    "Resources": Why(
        "what the pod asks for is not free on any node that may serve it",
        "wait for other jobs to end, or ask for less",
    ),
    "Priority": Why(
        "Slurm considers other jobs of its partition first, or of its reservation: their priority "
        "is higher, or equal and they were submitted earlier",
        "wait; a shorter `timeout` may fit in before them (backfill), and a QoS of higher priority "
        "comes sooner if Slurm weighs it (PriorityWeightQOS)",
    ),
    "Dependency": Why(
        "another job must start or end first",
        "wait for the job that `scontrol show job ID` names",
    ),
    "DependencyNeverSatisfied": Why(
        "the job it depends on did not end as required, so it never starts",
        "correct the pod's dependency, or recreate the pod without it",
    ),
    "BeginTime": Why(
        "its begin time has not come yet",
        "wait, or take the begin time out of the annotations",
    ),
    "JobHeldUser": Why("it is held by its user", _HOLD),
    "JobHeldAdmin": Why(
        "it is held by an operator of Slurm, or by Slurm itself after a failed start",
        f"ask the Slurm operators why; {_HOLD}",
    ),
    "JobHoldMaxRequeue": Why(
        "it was requeued too often and is held (max_batch_requeue)",
        f"ask the Slurm operators for the cause in slurmctld's log; {_HOLD}",
    ),
    "PartitionDown": Why(
        "its partition is DOWN: it accepts jobs but starts none",
        f"wait, {_OPERATORS}, or name another partition",
    ),
    "PartitionInactive": Why(
        "its partition is INACTIVE: it starts no jobs",
        f"wait, {_OPERATORS}, or name another partition",
    ),
    "PartitionTimeLimit": Why(
        "it requests more time than its partition allows",
        "shorten the annotation `timeout`, or name another partition (`scontrol show partition`)",
    ),
    "PartitionNodeLimit": Why(
        "it requests more or fewer nodes than its partition allows, or its nodes are down",
        "look at the partition's limits (`scontrol show partition`) and nodes (`sinfo`)",
    ),
    "PartitionConfig": Why(
        "its partition does not have what it requests, or the partition's limits forbid it",
        f"{_TOO_BIG} (`scontrol show partition`)",
    ),
    "ReqNodeNotAvail": Why(
        "a node that it needs is drained, down or reserved for others",
        "see `sinfo -R` for the cause; wait for the node, or require no particular node",
    ),
    "NodeDown": Why(
        "a node that it needs is down",
        "see `sinfo -R` for the cause; wait for the node, or require no particular node",
    ),
    "FrontEndDown": Why("no front end node is up", _OPERATORS),
    "BadConstraints": Why(
        "no node can ever satisfy its constraints, and Slurm has put it on hold",
        "correct the constraints, required nodes or resources, or bring such a node back; "
        f"then {_HOLD}",
    ),
    "Constraints": Why(
        "no node satisfies its constraints now",
        "correct the constraints, or wait for nodes with these features",
    ),
    "Reservation": Why(
        "its reservation has not begun, or is used up by other jobs",
        "wait for the reservation (`scontrol show reservation`), or name another reservation in "
        "the annotation, or none",
    ),
    "ReservationDeleted": Why(
        "its reservation was deleted", "name another reservation in the annotation, or none"
    ),
    "ReservationInvalid": Why(
        "it may not use its reservation", "name another reservation in the annotation, or none"
    ),
    "Licenses": Why(
        "the licenses it asks for are in use",
        "wait for other jobs to end (`scontrol show licenses`), or ask for fewer",
    ),
    "InvalidAccount": Why("Slurm does not know its account for its user", _POLICY),
    "InvalidQOS": Why("Slurm does not know its QoS", _POLICY),
    "AccountNotAllowed": Why("its partition does not accept its account", _POLICY),
    "QOSNotAllowed": Why("its account or partition does not accept its QoS", _POLICY),
    "AccountingPolicy": Why("a rule of Slurm's accounting forbids it to start", _OPERATORS),
    "QOSUsageThreshold": Why(
        "its account has used more than its QoS allows",
        "wait until the usage has decayed, or use another QoS or account",
    ),
    "QOSJobLimit": Why(
        "its QoS has reached its maximum number of jobs", "wait for jobs of this QoS to end"
    ),
    "QOSResourceLimit": Why(
        "its QoS has reached its maximum of resources",
        "wait for jobs of this QoS to end, or ask for less",
    ),
    "QOSTimeLimit": Why(
        "its QoS has used up its time", "shorten the annotation `timeout`, or use another QoS"
    ),
    "AssociationJobLimit": Why(
        "its account has reached its maximum number of jobs",
        "wait for jobs of this account to end",
    ),
    "AssociationResourceLimit": Why(
        "its account has reached its maximum of resources",
        "wait for jobs of this account to end, or ask for less",
    ),
    "AssociationTimeLimit": Why(
        "its account has used up its time",
        "shorten the annotation `timeout`, or use another account",
    ),
    "MaxMemPerLimit": Why("it requests more memory than its partition allows", _TOO_BIG),
    "JobArrayTaskLimit": Why(
        "as many tasks of its job array are running as may run at once",
        "wait for other tasks to end",
    ),
    "Prolog": Why("its prolog is running", "wait"),
    "Cleaning": Why("it was requeued, and its last run is still being cleaned up", "wait"),
    "SchedDefer": Why("Slurm's scheduler has deferred it because of its load", "wait"),
    "PowerNotAvail": Why("there is no power for more nodes", "wait"),
    "PowerReserved": Why("the power is reserved for others", "wait"),
    "BurstBufferResources": Why("a burst buffer has no room for it", "wait"),
    "BurstBufferStageIn": Why("its burst buffer is being filled", "wait"),
    "BurstBufferOperation": Why("an operation of its burst buffer has failed", _OPERATORS),
    "FedJobLock": Why("the clusters of its federation are deciding which one starts it", "wait"),
    "SystemFailure": Why(
        "Slurm, a file system or the network has failed", f"{_OPERATORS}; {_HOLD}"
    ),
    "JobLaunchFailure": Why(
        "it could not be started on its node, and is held",
        f"ask the Slurm operators for the cause in the node's slurmd log; {_HOLD}",
    ),
    "DeadLine": Why(
        "it can no longer end before its deadline", "correct the deadline, or shorten `timeout`"
    ),
}

_LIMIT: Final = re.compile(r"(?P<holder>QOS|Assoc)(?P<kind>Grp|Max|Min)(?P<rest>\w+)")
_PER_ACCOUNT: Final = re.compile(r"Max(?P<what>\w+)PerAccount")
_HOLDERS: Final = {"QOS": "QoS", "Assoc": "account"}
_RESOURCES: Final = {
    "cpu": "CPUs",
    "mem": "memory",
    "memory": "memory",
    "node": "nodes",
    "gres": "GPUs or other generic resources",
    "bb": "burst buffer space",
    "lic": "licenses",
    "license": "licenses",
    "energy": "energy",
    "billing": "billing units",
    "job": "running jobs",
    "jobs": "running jobs",
    "submitjob": "jobs that run and wait",
    "submitjobs": "jobs that run and wait",
    "wall": "run time",
    "wallduration": "run time",
    "unknown": "a resource",
}
_WHAT: Final = re.compile(
    r"(?P<what>[A-Za-z]+?)(?P<minutes>(?:Run)?Minutes)?(?:Per(?P<per>Job|User|Node))?"
    r"(?:Limit|NotSatisfied)?"
)


def why(reason: str) -> Why | None:
    """What the reason means; None if it is unknown."""
    return REASONS.get(reason) or _limit_meaning(reason)


def _limit_meaning(reason: str) -> Why | None:
    """What a reason from one of the families of limits means; None for any other reason. Slurm has
    a reason for each resource of each kind of limit, so their meanings are composed from their
    parts.
    """
    per_account = _PER_ACCOUNT.fullmatch(reason)
    if per_account is not None:
        what = _resource_name(per_account["what"])
        return Why(
            f"its account has reached the limit that its QoS sets per account: {what}",
            _WAIT_FOR_ROOM,
        )
    match = _LIMIT.fullmatch(reason)
    parts = None if match is None else _WHAT.fullmatch(match["rest"])
    if match is None or parts is None:
        return None
    holder, what = _HOLDERS[match["holder"]], _resource_name(parts["what"])
    if parts["minutes"]:
        what = f"minutes of {what}"
    return _LIMITS[_limit_kind(match["kind"], parts["per"])](holder, what)


def label(reason: str) -> str:
    """The reason as one of LABELS. Each family of limits shares one label."""
    if reason in LABELS:
        return reason
    if _PER_ACCOUNT.fullmatch(reason):
        return "MaxPerAccount"
    match = _LIMIT.fullmatch(reason)
    parts = None if match is None else _WHAT.fullmatch(match["rest"])
    if match is None or parts is None:
        return OTHER_REASON if reason else UNSAID
    kind = _limit_kind(match["kind"], parts["per"])
    return match["holder"] + kind.replace("PerUser", "MaxPerUser").replace("PerJob", "MaxPerJob")


def _limit_kind(kind: str, per: str | None) -> str:
    if kind == "Max":
        return "PerUser" if per in {None, "User"} else "PerJob"
    return kind


def _resource_name(word: str) -> str:
    return _RESOURCES.get(word.lower(), word)


_WAIT_FOR_ROOM: Final = "wait for other jobs to end, ask for less, or have the limit raised"
_LIMITS: Final = {
    "Grp": lambda holder, what: Why(
        f"all jobs of its {holder} together have reached their limit: {what}", _WAIT_FOR_ROOM
    ),
    "PerUser": lambda holder, what: Why(
        f"its user has reached the limit that its {holder} sets per user: {what}", _WAIT_FOR_ROOM
    ),
    "PerJob": lambda holder, what: Why(
        f"it requests more than its {holder} allows for one job: {what}",
        f"ask for less, or use another {holder}; waiting does not help",
    ),
    "Min": lambda holder, what: Why(
        f"it requests less than its {holder} requires of a job: {what}",
        f"ask for more, or use another {holder}; waiting does not help",
    ),
}

UNSAID: Final = "None"
OTHER_REASON: Final = "Other"
"""A reason that this table does not know, of a newer Slurm."""
_FAMILY_LABELS: Final = frozenset(
    {
        *("QOSGrp", "QOSMaxPerUser", "QOSMaxPerJob", "QOSMin", "MaxPerAccount"),
        *("AssocGrp", "AssocMaxPerUser", "AssocMaxPerJob", "AssocMin"),
    }
)
LABELS: Final = frozenset({UNSAID, *REASONS, *_FAMILY_LABELS, OTHER_REASON})
"""All values that `label` returns: a closed set, fit for a metric."""

STUCK: Final = frozenset(
    {
        *("DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "JobHoldMaxRequeue"),
        *("PartitionDown", "PartitionInactive", "PartitionTimeLimit", "PartitionNodeLimit"),
        *("PartitionConfig", "BadConstraints", "ReservationDeleted", "ReservationInvalid"),
        *("InvalidAccount", "InvalidQOS", "AccountNotAllowed", "QOSNotAllowed"),
        *("AccountingPolicy", "MaxMemPerLimit", "BurstBufferOperation", "SystemFailure"),
        *("JobLaunchFailure", "DeadLine", "FrontEndDown"),
        *("QOSMaxPerJob", "QOSMin", "AssocMaxPerJob", "AssocMin"),
    }
)
"""Labels of reasons that waiting does not cure: somebody must change the pod, Slurm's rules, or the
state of something.
"""


TOO_LARGE_REASONS: Final = frozenset({"PartitionNodeLimit", "PartitionConfig"})
"""Reasons of a job that waits for more nodes than its partition gives to one job."""


def pending_text(job_id: int, record: Job | None) -> str:
    """Slurm's reason and numbers in its own words, then what they mean and what would help.

    `record` is the last full look. The text says only that the job is pending if there is no
    record, if it is from before the job was pending, or if it has no reason yet.
    """
    if record is None or record.state.base is not BaseState.PENDING or not reasoned(record):
        return f"Slurm job {job_id} is pending"
    reason = record.state_reason
    details = ", ".join(_details(record))
    mirrored = f"{_mirrored(record)} ({details})" if details else _mirrored(record)
    known = why(reason)
    explained = f". That is: {known.meaning}; to do: {known.remedy}" if known else ""
    return f"Slurm job {job_id} is pending: {mirrored}{explained}"


def reasoned(record: Job) -> bool:
    """Whether Slurm gives a reason; it does once it has considered the job."""
    return record.state_reason not in {"", "None"}


def _mirrored(record: Job) -> str:
    """Slurm's reason, with its further description if there is one; that may begin with the
    reason.
    """
    reason, said = record.state_reason, record.state_description
    if not said:
        return reason
    text = said if said.startswith(reason) else f"{reason}, {said}"
    if len(text) <= _LONGEST_DESCRIPTION:
        return text
    return text[: _LONGEST_DESCRIPTION - 3] + "..."


def _details(record: Job) -> Iterator[str]:
    if record.priority is not None:
        yield f"priority {record.priority}"
    if record.partition:
        yield f"partition {record.partition}"
    start = expected_start(record)
    if start is not None:
        yield f"expected start {datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M} UTC"


def expected_start(record: Job) -> int | None:
    """When Slurm expects to start a pending job, in Unix seconds; None if its forecast means
    nothing.

    The backfill scheduler sets it for the jobs that it plans. Behind a job without a time limit it
    is a year away (measured on 26.05.5 and 24.11.5).
    """
    start, submitted = record.start_time, record.submit_time
    if not start or submitted is None or record.state.base is not BaseState.PENDING:
        return None
    return start if submitted < start < submitted + _NO_FORECAST_SECONDS else None
