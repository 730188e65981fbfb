"""Synthetic answers of real size and shape: pods with managedFields, watch lines, job states,
jobs.
"""

from __future__ import annotations

import json
from typing import Any

from scheduler.sandbox.slurm.shapes import shape

Json = dict[str, Any]

_TIME = "2026-03-01T12:00:00Z"


def pod(number: int) -> Json:
    """A running pod of a Deployment as an API server lists it; about 4.7 kB in compact JSON."""
    name = f"trainer-{number % 97:04x}-{number:06d}"
    uid = f"3f6c{number:04x}-8a1e-4b7d-9c52-{number:012x}"
    return {
        "metadata": _metadata(name, uid, number),
        "spec": _spec(name, number),
        "status": _status(number),
    }


def pod_list(count: int) -> bytes:
    """One page that holds them all."""
    return _compact(
        {
            "kind": "PodList",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "9000001"},
            "items": [pod(number) for number in range(count)],
        }
    )


def node_list(count: int) -> bytes:
    """`count` Ready Nodes, with the names that the pods are bound to."""
    items = [
        {
            "metadata": {"name": f"node-{number:03d}", "uid": f"node-uid-{number}"},
            "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }
        for number in range(count)
    ]
    return _compact(
        {"kind": "NodeList", "metadata": {"resourceVersion": "9000001"}, "items": items}
    )


def watch_lines(count: int) -> list[bytes]:
    """`count` MODIFIED events, one per line; each carries the whole pod."""
    return [_compact({"type": "MODIFIED", "object": pod(number)}) for number in range(count)]


def job_states(count: int) -> list[bytes]:
    """Answers of `GET jobs/state/` of at most 1000 jobs each, ids as strings (Slurm 26.05.5)."""
    return [_states(first, min(first + 1000, count)) for first in range(0, count, 1000)]


def _states(first: int, end: int) -> bytes:
    states = (["RUNNING"], ["PENDING"], ["RUNNING", "CONFIGURING"])
    jobs = [{"job_id": str(n + 1), "state": states[n % len(states)]} for n in range(first, end)]
    meta = {"plugin": {"type": "openapi/slurmctld", "data_parser": "data_parser/v0.0.45"}}
    # slurmrestd prints with indentation unless SLURMRESTD_JSON=compact is set.
    body = {"jobs": jobs, "meta": meta, "errors": [], "warnings": []}
    return json.dumps(body, indent=2).encode()


def job_look(nodes: int, *, cores: bool) -> bytes:
    """The answer about one running job, with or without the 64 cores of each of its nodes."""
    names = [f"node-{number:03d}" for number in range(nodes)]
    listed = [_allocation(index, name) for index, name in enumerate(names)] if cores else []
    running: Json = {
        "job_id": 1,
        "job_state": ["RUNNING"],
        "nodes": ",".join(names),
        "tasks": nodes,
        "cpus_per_task": 8,
        "job_resources": {"nodes": {"count": nodes, "allocation": listed}} if cores else None,
    }
    body = {"jobs": [{**shape("v0.0.45").job, **running}], "errors": [], "warnings": []}
    return json.dumps(body, indent=2).encode()


def _allocation(index: int, name: str) -> Json:
    cores = [{"index": core, "status": ["UNALLOCATED"]} for core in range(64)]
    cpus, memory = {"count": 8, "used": 0}, {"used": 0, "allocated": 65536}
    sockets = [{"index": 0, "cores": cores}]
    return {"index": index, "name": name, "cpus": cpus, "memory": memory, "sockets": sockets}


def _compact(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _metadata(name: str, uid: str, number: int) -> Json:
    return {
        "name": name,
        "generateName": name[:-6],
        "namespace": f"team-{number % 10}",
        "uid": uid,
        "resourceVersion": str(1_000_000 + number),
        "generation": 1,
        "creationTimestamp": _TIME,
        "labels": {
            "app": "trainer",
            "team": f"team-{number % 10}",
            "pod-template-hash": "5d8f9c7b6",
        },
        "annotations": {
            "sunk.coreweave.com/partition": "gpu",
            "sunk.coreweave.com/account": "physics",
            "sunk.coreweave.com/timeout": "3600",
            "slurm-pod-scheduler/job-id": str(number + 1),
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": name[:-7],
                "uid": uid[::-1],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": [
            _managed("kube-controller-manager", _CONTROLLER_FIELDS),
            _managed("slurm-pod-scheduler", _SCHEDULER_FIELDS, subresource="status"),
            _managed("kubelet", _KUBELET_FIELDS, subresource="status"),
        ],
    }


def _managed(manager: str, fields: Json, *, subresource: str | None = None) -> Json:
    entry: Json = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": _TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return entry | ({"subresource": subresource} if subresource else {})


def _fields(*names: str) -> Json:
    return {f"f:{name}": {} for name in names}


_CONTROLLER_FIELDS: Json = {
    "f:metadata": {
        "f:annotations": {".": {}, **_fields("sunk.coreweave.com/partition")},
        "f:generateName": {},
        "f:labels": {".": {}, **_fields("app", "team", "pod-template-hash")},
        "f:ownerReferences": {".": {}, 'k:{"uid":"3f6c0000-8a1e-4b7d-9c52-000000000000"}': {}},
    },
    "f:spec": {
        "f:containers": {
            'k:{"name":"main"}': {
                ".": {},
                **_fields("command", "image", "imagePullPolicy", "name", "terminationMessagePath"),
                "f:env": {
                    ".": {},
                    'k:{"name":"NCCL_DEBUG"}': {".": {}, **_fields("name", "value")},
                },
                "f:resources": {".": {}, **_fields("limits", "requests")},
            }
        },
        **_fields("dnsPolicy", "restartPolicy", "schedulerName", "securityContext"),
    },
}
_SCHEDULER_FIELDS: Json = {
    "f:metadata": {"f:annotations": _fields("slurm-pod-scheduler/job-id")},
    "f:status": {
        "f:conditions": {'k:{"type":"PodScheduled"}': {".": {}, **_fields("status", "type")}}
    },
}
_KUBELET_FIELDS: Json = {
    "f:status": {
        "f:conditions": {
            f'k:{{"type":"{kind}"}}': {".": {}, **_fields("lastTransitionTime", "status", "type")}
            for kind in ("ContainersReady", "Initialized", "Ready")
        },
        **_fields("containerStatuses", "hostIP", "phase", "podIP", "startTime"),
        "f:podIPs": {".": {}, 'k:{"ip":"10.2.0.1"}': {".": {}, "f:ip": {}}},
    }
}


def _spec(name: str, number: int) -> Json:
    return {
        "volumes": [
            {"name": "token", "projected": {"sources": _TOKEN_SOURCES, "defaultMode": 420}}
        ],
        "containers": [
            {
                "name": "main",
                "image": "registry.example/trainer:1.2.3",
                "command": ["python", "-m", "trainer", "--name", name],
                "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
                "resources": {
                    "limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"},
                    "requests": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"},
                },
                "volumeMounts": [
                    {
                        "name": "token",
                        "readOnly": True,
                        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
                    }
                ],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "IfNotPresent",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 20,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "serviceAccount": "default",
        "nodeName": f"node-{number % 200:03d}",
        "securityContext": {},
        "schedulerName": "slurm-scheduler",
        "tolerations": [
            {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute"}
            for why in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


_TOKEN_SOURCES: list[Json] = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
]


def _status(number: int) -> Json:
    address = f"10.2.{number // 250 % 250}.{number % 250}"
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _TIME}
            for kind in kinds
        ],
        "hostIP": "10.1.0.7",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _TIME,
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": _TIME}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "registry.example/trainer:1.2.3",
                "imageID": f"registry.example/trainer@sha256:{'0123456789abcdef' * 4}",
                "containerID": f"containerd://{number:064x}",
                "started": True,
            }
        ],
        "qosClass": "Guaranteed",
    }
