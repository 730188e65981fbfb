"""One pod as a line of the page, in JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from scheduler.core.gang_sources import Membership
from scheduler.kube.wire import Pod
from scheduler.view.printing import moment_text
from scheduler.view.row import Row
from scheduler.view.safe_text import shown

_encode = msgspec.json.Encoder().encode


def pod_line(pod: Pod, row: Row, member: Membership | None) -> bytes:
    """The line. `member` says to which gang the pod belongs. What is not known is left out. Control
    characters of texts that people write are escaped; markup is not, because the page shows texts
    as texts.
    """
    found = {
        "id": row.uid,
        "ns": row.namespace,
        "name": row.name,
        "state": row.state.value,
        "reason": shown(row.reason),
        "job": row.job,
        "partition": shown(row.partition),
        "account": shown(row.account),
        "qos": shown(row.qos),
        "priority": row.priority,
        "created": moment_text(row.created),
        "bound": moment_text(_bound(pod)),
        "expected": moment_text(row.expected_start),
        "ends": moment_text(row.ends_at),
        "cpus": row.cpus,
        "memory": row.memory_bytes,
        "gpus": row.gpus,
        "node": row.node,
        "gang": _gang_told(row, member),
    }
    return _encode({key: it for key, it in found.items() if it is not None and it != ""})


def gone_line(key: str) -> bytes:
    """Says that what had this key is gone."""
    return _encode({"id": key, "gone": True})


def _bound(pod: Pod) -> datetime | None:
    """When it was bound; None if it is not, or does not say so."""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status != "True":
        return None
    return condition.last_transition_time


def _gang_told(row: Row, member: Membership | None) -> dict[str, Any] | None:
    if member is None:
        return None
    said = row.gang.gang
    rank, size = member.rank, member.size
    if said is not None and said.key == member.key:
        rank, size = (said.rank if rank is None else rank), (said.size if size is None else size)
    found = {"key": member.key, "name": shown(member.name)[:256], "rank": rank, "size": size}
    return {key: it for key, it in found.items() if it is not None}
