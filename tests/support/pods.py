"""Builds pods for tests, and reads their fields."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from tests.support.kube import Object
from tests.support.scheduler import SCHEDULER_NAME

PREFIX: Final = "sunk.coreweave.com/"
JOB_ID: Final = "slurm-pod-scheduler/job-id"
NODES: Final = "slurm-pod-scheduler/nodes"
ENDS_AT: Final = "slurm-pod-scheduler/ends-at"


def pod(
    name: str,
    *,
    cpus: str | None = "2",
    memory: str | None = "1Gi",
    gpus: int = 0,
    grace: int = 3,
    scheduler: str = SCHEDULER_NAME,
    slurm: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    container: Object | None = None,
    **spec: Any,
) -> Object:
    """A pod with one container; `slurm` holds annotations of ours, without their prefix.

    `container` and `spec` hold fields to set or replace in the container and in the pod's spec.
    """
    requests = {k: v for k, v in (("cpu", cpus), ("memory", memory)) if v is not None}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    main = {
        "name": "main",
        "image": "registry.invalid/anything:1",
        "resources": {"requests": requests | limits, "limits": limits},
    } | (container or {})
    prefixed = {PREFIX + key: value for key, value in (slurm or {}).items()}
    return {
        "metadata": {
            "name": name,
            "labels": {"app": name} | (labels or {}),
            "annotations": prefixed | (annotations or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": grace,
            "automountServiceAccountToken": False,
            "containers": [main],
        }
        | spec,
    }


def batch_job(size: int, *, name: str = "train", **more: Any) -> Object:
    """An Indexed batch Job all of whose pods run together; `more` as in `pod`."""
    template = pod(name, restartPolicy="Never", **more)
    del template["metadata"]["name"]
    spec = {
        "completionMode": "Indexed",
        "parallelism": size,
        "completions": size,
        "backoffLimit": 20,
        "template": template,
    }
    return {"metadata": {"name": name}, "spec": spec}


def rfc3339(epoch: int) -> str:
    """A time as Kubernetes writes it."""
    return datetime.fromtimestamp(epoch, UTC).isoformat().replace("+00:00", "Z")


def condition(pod: Object, kind: str) -> Object | None:
    """The condition of that type, None if the pod has none."""
    conditions = pod.get("status", {}).get("conditions", ())
    return next((it for it in conditions if it["type"] == kind), None)


def why(pod: Object, reason: str = "") -> str:
    """Why the pod waits: the message of PodScheduled=False, with that reason if one is given; empty
    for other pods.
    """
    told = condition(pod, "PodScheduled") or {}
    fits = told.get("status") == "False" and reason in {"", told.get("reason")}
    return str(told.get("message", "")) if fits else ""


def annotation(pod: Object, key: str) -> str | None:
    """The value of an annotation, None if the pod does not have it."""
    value = pod["metadata"].get("annotations", {}).get(key)
    return None if value is None else str(value)


def phase(pod: Object) -> str:
    """The pod's phase; "Pending" while the status has none."""
    return str(pod.get("status", {}).get("phase", "Pending"))


def node_of(pod: Object) -> str | None:
    """The Node that the pod is bound to."""
    name = pod["spec"].get("nodeName")
    return None if name is None else str(name)


def has_ended(pod: Object) -> bool:
    """Whether its containers have ended for good."""
    return phase(pod) in {"Succeeded", "Failed"}


def leaving(pod: Object) -> bool:
    """Whether the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def summary(pod: Object) -> str:
    """One line about a pod, for people."""
    conditions = " ".join(
        f"{it['type']}={it['status']}({it.get('reason', '')}: {it.get('message', '')})"
        for it in pod.get("status", {}).get("conditions", ())
    )
    return (
        f"{pod['metadata']['name']} uid={pod['metadata']['uid'][:8]} phase={phase(pod)} "
        f"node={node_of(pod)} job={annotation(pod, JOB_ID)} leaving={leaving(pod)} {conditions}"
    )
