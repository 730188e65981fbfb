"""Nodes as their kubelets register them, and the Leases by which they show that they live."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from tests.rigs.simulator.api import MERGE, STRATEGIC_MERGE, Api
from tests.rigs.simulator.status import now

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LEASE_SECONDS: Final = 160
LOST_SECONDS: Final = 200
"""A Node whose Lease is that old is lost; for the controller manager."""
# A kubelet renews its Lease every 10 s, and is lost after 50 s. Here 200 of them share two cores
# with the tests: at 20 s their Leases took half of what an idle API server and etcd need.
_BEAT_SECONDS: Final = 80.0
_LOOK_SECONDS: Final = 10.0
_AT_ONCE: Final = 16
# Every kubelet reports it; without it no pod that requests some would fit.
_DISK: Final = "100Gi"
_PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure")


class NodeShape(msgspec.Struct, frozen=True, kw_only=True):
    """What a Node offers; `devices` are counts of extended resources by name."""

    name: str
    cpus: int = 64
    memory_mib: int = 512000
    pods: int = 250
    devices: dict[str, int] = {}
    labels: dict[str, str] = {}


async def register(api: Api, shapes: Sequence[NodeShape]) -> None:
    """Make all Nodes and their Leases; those that are there already stay."""
    slots = asyncio.Semaphore(_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for shape in shapes:
            group.create_task(_register(api, shape, slots=slots))


async def beat(api: Api, shapes: Sequence[NodeShape]) -> None:
    """Renew the Leases one after the other, for ever; those overdue after an outage at once."""
    clock = asyncio.get_running_loop().time
    due_at = clock()
    while True:
        for shape in shapes:
            renewal = {"spec": {"renewTime": _micro_now()}}
            await api.write("PATCH", f"{_LEASES}/{shape.name}", renewal, kind=MERGE)
            due_at = max(due_at + _BEAT_SECONDS / len(shapes), clock() - _BEAT_SECONDS)
            await asyncio.sleep(max(0.0, due_at - clock()))


async def report(api: Api, shapes: Sequence[NodeShape]) -> None:
    """Report Nodes as ready again after the node controller has marked them as lost, for ever.

    It marks them after an outage of the API server that is longer than a Lease, and only a kubelet
    can undo that.
    """
    names = {shape.name for shape in shapes}
    while True:
        for name in names & await api.lost_nodes():
            status = {"status": {"conditions": _healthy()}}
            await api.write("PATCH", f"/api/v1/nodes/{name}/status", status, kind=STRATEGIC_MERGE)
        await asyncio.sleep(_LOOK_SECONDS)


async def _register(api: Api, shape: NodeShape, *, slots: asyncio.Semaphore) -> None:
    async with slots:
        # The Lease first, so that the Node counts as alive from its first moment.
        await api.write("POST", _LEASES, _lease(shape.name))
        await api.write("POST", "/api/v1/nodes", _node(shape))


def _node(shape: NodeShape) -> dict[str, Any]:
    offered = {
        "cpu": str(shape.cpus),
        "memory": f"{shape.memory_mib}Mi",
        "pods": str(shape.pods),
        "ephemeral-storage": _DISK,
        **{name: str(count) for name, count in shape.devices.items()},
    }
    labels = {
        "kubernetes.io/hostname": shape.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": shape.name, "labels": labels | shape.labels},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "addresses": [
                {"type": "InternalIP", "address": "127.0.0.1"},
                {"type": "Hostname", "address": shape.name},
            ],
            "conditions": _healthy(),
            "nodeInfo": _info(shape.name),
        },
    }


def _healthy() -> list[dict[str, str]]:
    pressures = (_condition(kind, "False", "KubeletHasNo" + kind) for kind in _PRESSURES)
    return [*pressures, _condition("Ready", "True", "KubeletReady")]


def _condition(kind: str, status: str, reason: str) -> dict[str, str]:
    at = now()
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }


def _info(name: str) -> dict[str, str]:
    unknown = ("kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
    return {
        "machineID": name,
        "systemUUID": name,
        "bootID": name,
        **dict.fromkeys(unknown, "simulated"),
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _lease(name: str) -> dict[str, Any]:
    return {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": name, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": _micro_now(),
        },
    }


def _micro_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
