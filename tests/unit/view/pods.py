"""Pods as the scheduler and kubelets leave them, and their rows."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.kube.wire import Pod, decode_pod
from scheduler.sandbox.kube import KubeServer, resources
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


def decoded(body: dict[str, Any]) -> Pod:
    """The pod as it is read from the API server."""
    return decode_pod(msgspec.json.encode(body))


def row(body: dict[str, Any]) -> Row:
    """The row of this pod."""
    return row_of(decoded(body), NAMES)


def add(server: KubeServer, body: dict[str, Any], *, namespace: str = "default") -> None:
    """Create the pod, and give it the status that its body has."""
    kept = {"name", "labels", "annotations", "ownerReferences"}
    meta = {key: value for key, value in body["metadata"].items() if key in kept}
    server.model.create(resources.PODS, namespace, body | {"metadata": meta, "status": {}})
    change(server, meta["name"], body["status"], namespace=namespace)


def change(
    server: KubeServer, name: str, status: dict[str, Any], *, namespace: str = "default"
) -> None:
    """Give the pod this status."""
    server.model.patch(
        resources.PODS,
        namespace,
        name,
        {"status": status},
        content_type="application/merge-patch+json",
        subresource="status",
    )


def uid_of(server: KubeServer, name: str) -> str:
    """The uid that the API server has given to the pod."""
    return str(server.model.get(resources.PODS, "default", name).body["metadata"]["uid"])


def add_event(
    server: KubeServer, name: str, uid: str, *, at: str, reason: str, message: str = "", **more: Any
) -> None:
    """Create an Event about the pod, as the scheduler does."""
    about = {"kind": "Pod", "namespace": "default", "name": name, "uid": uid}
    body = {
        "metadata": {"name": f"{name}.{reason.lower()}.{at[-6:-1].replace(':', '')}"},
        "involvedObject": about,
        "type": "Normal",
        "reason": reason,
        "message": message,
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": "slurm-pod-scheduler"},
    }
    server.model.create(resources.EVENTS, "default", body | more)
