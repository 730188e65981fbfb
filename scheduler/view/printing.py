"""Rows in the forms for programs, and the way to standard output."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import Any

import yaml

from scheduler.view.row import Row


def as_object(row: Row) -> dict[str, Any]:
    """The row with the names of its fields in Kubernetes' manner. Null stands for what is not
    known.
    """
    found = {
        "namespace": row.namespace,
        "name": row.name,
        "uid": row.uid,
        "state": row.state.value,
        "reason": row.reason,
        "message": row.message,
        "jobId": row.job,
        "partition": row.partition,
        "account": row.account,
        "qos": row.qos,
        "priority": row.priority,
        "place": row.place,
        "created": moment_text(row.created),
        "expectedStart": moment_text(row.expected_start),
        "endsAt": moment_text(row.ends_at),
        "cpus": row.cpus,
        "memoryBytes": row.memory_bytes,
        "gpus": row.gpus,
        "node": row.node,
        "user": row.user,
        "gang": _gang_object(row),
    }
    return {key: None if value == "" else value for key, value in found.items()}


def _gang_object(row: Row) -> dict[str, Any] | None:
    """The pod's gang; of a row that stands for a gang, its pods too."""
    gang = row.gang.gang
    if gang is None:
        return None
    found = {"name": gang.name or None, "size": gang.size, "firstNode": gang.first_node or None}
    if not row.pods:
        return found | {"rank": gang.rank}
    return found | {"pods": [member_object(it) for it in row.pods]}


def member_object(row: Row) -> dict[str, Any]:
    """A pod of a gang."""
    rank = None if row.gang.gang is None else row.gang.gang.rank
    return {"name": row.name, "rank": rank, "state": row.state.value, "node": row.node or None}


def as_json(value: object, *, indent: int | None = None) -> str:
    """JSON in ASCII alone: every other character is escaped, control characters too."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f") + "\n"


def as_yaml(value: object) -> str:
    """YAML in which all characters that are not ASCII are escaped."""
    text: str = yaml.safe_dump(value, sort_keys=False, width=10_000)
    return text


def as_name(row: Row) -> str:
    """`pod/NAME`, as kubectl writes it and takes it."""
    return f"pod/{row.name}\n"


def put(text: str) -> None:
    """Write to standard output at once. What it cannot encode becomes a question mark."""
    sys.stdout.buffer.write(text.encode(sys.stdout.encoding or "utf-8", "replace"))
    sys.stdout.buffer.flush()


def moment_text(moment: datetime | None) -> str:
    """The time as Kubernetes writes it; "" for None."""
    return "" if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
