"""Node objects as their kubelets write them."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.sandbox.kube.meta import micro_now, now
from scheduler.sandbox.kube.resources import Body

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
LONGEST_PODS = 250
DISK = "100Gi"
KUBELET_VERSION = "v1.36.3"

_PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShape:
    """What a Node offers; `devices` maps names of extended resources to their counts."""

    name: str
    cpus: int
    memory_mib: int
    devices: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


def node(shape: NodeShape) -> Body:
    """A Node that is Ready."""
    offered = {
        "cpu": str(shape.cpus),
        "memory": f"{shape.memory_mib}Mi",
        "pods": str(LONGEST_PODS),
        "ephemeral-storage": DISK,
        **{name: str(count) for name, count in shape.devices.items()},
    }
    labels = {
        "kubernetes.io/hostname": shape.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **shape.labels,
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": shape.name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": shape.name},
            ],
            "nodeInfo": _info(shape.name),
            "conditions": _ready(),
        },
    }


def _info(name: str) -> Body:
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        "kernelVersion": "sandbox",
        "osImage": "sandbox",
        "containerRuntimeVersion": "sandbox://1",
        "kubeletVersion": KUBELET_VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _ready() -> list[Body]:
    return [
        *(_condition(kind, "False", *why) for kind, why in _PRESSURES.items()),
        _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]


def _condition(kind: str, status: str, reason: str, message: str) -> Body:
    reported = now()
    return {
        "type": kind,
        "status": status,
        "lastHeartbeatTime": reported,
        "lastTransitionTime": reported,
        "reason": reason,
        "message": message,
    }


def lease(name: str) -> Body:
    """The Lease that a kubelet renews to show that it lives."""
    return {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_now(),
        },
    }


def renewed(body: Body) -> Body:
    """The Lease, renewed now."""
    return {**body, "spec": {**body["spec"], "renewTime": micro_now()}}
