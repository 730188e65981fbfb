"""One pod as a row of the queue: what the pod itself shows, and nothing that would be a guess."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum, unique
from typing import Final

from annotations.quantity import divide_up
from scheduler.core.naming import ENDS_AT, JOB_ID, JOB_PARTITION
from scheduler.core.pending_words import read_back
from scheduler.kube.clip import clipped
from scheduler.kube.demands import requests_of
from scheduler.kube.wire import ContainerState, Pod, PodCondition
from scheduler.view.gang import GangView, gang_of

_MOST_BYTES: Final = 256
_JOB: Final = re.compile(r"[1-9]\d{0,9}", re.ASCII)
_PRIORITY: Final = re.compile(r"\d{1,10}", re.ASCII)
_MILLI: Final = 1000
_NO_CONDITION: Final = PodCondition("", "")


@unique
class State(StrEnum):
    """How far a pod has come, in squeue's words. The order is that of a pod's life."""

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    """Only jobs of Slurm are, no pods."""
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    UNKNOWN = "UNKNOWN"
    """The kubelet has not reported for long."""
    GONE = "GONE"
    """The pod does not exist any more; only `--watch` shows this."""


CODES: Final[Mapping[str, State]] = {
    "PD": State.PENDING,
    "CF": State.CONFIGURING,
    "R": State.RUNNING,
    "S": State.SUSPENDED,
    "CG": State.COMPLETING,
    "CD": State.COMPLETED,
    "F": State.FAILED,
}
"""squeue's short names."""

IN_QUEUE: Final = frozenset(State) - {State.COMPLETED, State.FAILED, State.GONE}
"""What is listed unless somebody asks for other states, as in squeue."""

_BY_PHASE: Final = {
    "Succeeded": State.COMPLETED,
    "Failed": State.FAILED,
    "Running": State.RUNNING,
    "Unknown": State.UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How the site calls things: prefixes of annotations, and the resources that are GPUs."""

    prefixes: tuple[str, ...]
    gpus: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A pod, or the `pods` of a gang together, or a job of Slurm that is no pod's
    (`native_jobs.py`), which has a `user` but no uid and no namespace. "" and None stand for what
    is not known. Texts are bounded, and are as the pod has them: `safe_text.py` makes them fit for
    a terminal. `place` is what the scheduler's page says (`queue_place.py`).
    """

    uid: str
    namespace: str
    name: str
    state: State
    reason: str
    message: str
    job: int | None
    partition: str
    account: str
    qos: str
    priority: int | None
    created: datetime | None
    expected_start: datetime | None
    ends_at: datetime | None
    cpus: int
    memory_bytes: int
    gpus: int
    node: str
    gang: GangView
    pods: tuple[Row, ...] = ()
    place: str = ""
    user: str = ""


def row_of(pod: Pod, names: Names) -> Row:
    """The pod's row."""
    meta, state, amounts = pod.metadata, state_of(pod), dict(requests_of(pod))
    why = _why(pod, state)
    message = clipped(why.message)
    slurm = read_back(message if state is State.PENDING else "")
    asked = {
        name: _annotation_value(pod, names, name)
        for name in ("partition", "account", "qos", "priority")
    }
    return Row(
        uid=meta.uid,
        namespace=bounded(meta.namespace),
        name=bounded(meta.name),
        state=state,
        reason=slurm.reason or bounded(why.reason),
        message=message,
        job=_matched_number(_JOB, meta.annotations.get(JOB_ID, "")),
        partition=slurm.partition or _started_in(pod) or asked["partition"],
        account=asked["account"],
        qos=asked["qos"],
        priority=_first(slurm.priority, _matched_number(_PRIORITY, asked["priority"])),
        created=meta.creation_timestamp,
        expected_start=slurm.expected_start,
        ends_at=_annotated_time(meta.annotations.get(ENDS_AT, "")),
        cpus=divide_up(amounts.get("cpu", 0), _MILLI),
        memory_bytes=amounts.get("memory", 0),
        gpus=sum(amounts.get(it, 0) for it in names.gpus),
        node=bounded(pod.spec.node_name),
        gang=gang_of(pod, names.prefixes),
    )


def _started_in(pod: Pod) -> str:
    """The partition in which Slurm started the job of a bound pod, as the scheduler wrote it."""
    return bounded(pod.metadata.annotations.get(JOB_PARTITION, "")) if pod.spec.node_name else ""


def state_of(pod: Pod) -> State:
    """How far the pod has come."""
    if pod.finished:
        return _BY_PHASE[pod.status.phase]
    if pod.metadata.deletion_timestamp is not None:
        return State.COMPLETING
    if not pod.spec.node_name:
        return State.PENDING
    return _BY_PHASE.get(pod.status.phase, State.CONFIGURING)


def _why(pod: Pod, state: State) -> PodCondition:
    """Why it is in this state, by the condition that says so; the reason of a container, where no
    condition does.
    """
    if state is State.PENDING:
        found = pod.condition("PodScheduled")
        return found if found is not None and found.status == "False" else _NO_CONDITION
    disrupted = pod.condition("DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return disrupted
    reason = pod.status.reason or _container_reason(pod)
    return PodCondition("", "", reason=reason, message=pod.status.message)


def _container_reason(pod: Pod) -> str:
    """The first reason that a container gives for not running, such as ImagePullBackOff."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return next(filter(None, (_stopped(it.state) for it in statuses)), "")


def _stopped(state: ContainerState) -> str:
    if state.waiting is not None:
        return state.waiting.reason
    ended = state.terminated
    return "" if ended is None or ended.exit_code == 0 else ended.reason


def _annotation_value(pod: Pod, names: Names, name: str) -> str:
    """The value of an annotation; "" if it has different ones under two prefixes, which the
    scheduler refuses.
    """
    keys = (prefix + name for prefix in names.prefixes)
    values = {pod.metadata.annotations[key] for key in keys if key in pod.metadata.annotations}
    return bounded(values.pop().strip()) if len(values) == 1 else ""


def bounded(text: str) -> str:
    """A short text of a row, such as a name."""
    return clipped(text, _MOST_BYTES)


def _matched_number(pattern: re.Pattern[str], text: str) -> int | None:
    return int(text) if pattern.fullmatch(text) else None


def _first(*numbers: int | None) -> int | None:
    return next((it for it in numbers if it is not None), None)


def _annotated_time(text: str) -> datetime | None:
    """The time of an annotation in UTC; anybody may have written it. None unless it has a zone."""
    try:
        found = datetime.fromisoformat(text)
        return None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):  # the latter for the first and the last hours of all time
        return None
