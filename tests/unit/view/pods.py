"""Pods as the scheduler and kubelets leave them, and their rows."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.kube.wire import decode_pod
from scheduler.view.row import Names, Row, row_of

SUNK: Final = "sunk.coreweave.com/"
SITE: Final = "slurm.example.com/"
OURS: Final = "slurm-pod-scheduler/"
NAMES: Final = Names(prefixes=(SUNK, SITE), gpus=frozenset({"nvidia.com/gpu"}))
PENDING: Final = (
    "Slurm job 7 is pending: Resources (priority 100, partition gpu, expected start 2026-11-24 "
    "06:30 UTC). That is: what the pod asks for is not free; to do: wait"
)
CREATED: Final = "2026-11-24T05:00:00Z"


def pod(
    name: str = "train",
    *,
    annotations: dict[str, str] | None = None,
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of 1500m CPU, 2 GiB and a GPU; `spec` holds more of its spec."""
    requests = {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1"}
    resources = {"requests": requests, "limits": {"nvidia.com/gpu": "1"}}
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": CREATED,
            "annotations": annotations or {},
        }
        | (meta or {}),
        "spec": {
            "schedulerName": "slurm-scheduler",
            "containers": [{"name": "c", "image": "x", "resources": resources}],
        }
        | spec,
        "status": {"phase": "Pending"} | (status or {}),
    }


def waiting(message: str = PENDING, reason: str = "SlurmPending") -> dict[str, Any]:
    """The status of a pod that says why it waits."""
    return {"conditions": [condition("PodScheduled", "False", reason, message)]}


def condition(kind: str, status: str, reason: str = "", message: str = "") -> dict[str, str]:
    """A condition."""
    return {"type": kind, "status": status, "reason": reason, "message": message}


def row(body: dict[str, Any]) -> Row:
    """The row of this pod."""
    return row_of(decode_pod(msgspec.json.encode(body)), NAMES)
