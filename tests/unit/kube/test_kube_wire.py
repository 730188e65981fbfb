from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.kube import wire
from scheduler.kube.errors import KubeGarbled

# as a kube-apiserver 1.36 sends it, shortened
POD: dict[str, Any] = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {
        "name": "trainer-0",
        "namespace": "team-a",
        "uid": "1f7c",
        "resourceVersion": "812",
        "creationTimestamp": "2026-11-21T08:00:00Z",
        "deletionTimestamp": "2026-11-21T08:05:00Z",
        "deletionGracePeriodSeconds": 20,
        "labels": {"app": "trainer"},
        "annotations": {"sunk.coreweave.com/account": "root"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "name": "t",
                "uid": "9",
                "controller": True,
            }
        ],
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}],
    },
    "spec": {
        "nodeName": "n1",
        "schedulerName": "slurm-scheduler",
        "terminationGracePeriodSeconds": 20,
        "schedulingGates": [{"name": "later"}],
        "priority": 7,
        "initContainers": [
            {"name": "sidecar", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
        ],
        "containers": [
            {
                "name": "main",
                "image": "x",
                "resources": {
                    "requests": {"cpu": 2, "memory": "1Gi"},
                    "limits": {"nvidia.com/gpu": "8"},
                },
            },
            {"name": "helper", "resources": {}},
        ],
        "overhead": {"cpu": "250m"},
    },
    "status": {
        "phase": "Running",
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "lastProbeTime": None,
                "lastTransitionTime": "2026-11-21T08:01:00Z",
            }
        ],
        "startTime": "2026-11-21T08:00:30Z",
        "containerStatuses": [
            {
                "name": "main",
                "ready": False,
                "restartCount": 1,
                "lastState": {},
                "state": {
                    "terminated": {"exitCode": 137, "reason": "OOMKilled", "startedAt": None}
                },
            },
            {"name": "helper", "state": {"running": {"startedAt": "2026-11-21T08:00:31Z"}}},
        ],
    },
}


def test_pod_is_read() -> None:
    pod = wire.decode_pod(json.dumps(POD).encode())
    assert pod.metadata.creation_timestamp == datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
    assert pod.metadata.deletion_grace_period_seconds == 20
    assert pod.metadata.owner_references[0].controller
    assert pod.spec.containers[0].resources.requests == {"cpu": 2, "memory": "1Gi"}
    assert pod.spec.containers[1].resources == wire.ResourceRequirements()
    assert pod.spec.init_containers[0].restart_policy == "Always"
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["later"]
    main, helper = pod.status.container_statuses
    assert main.state.terminated is not None
    assert main.state.terminated.exit_code == 137
    assert helper.state.running is not None
    assert pod.condition("Ready") == pod.status.conditions[0]
    assert pod.condition("PodScheduled") is None


def _nulled(value: Any) -> Any:
    """Every field a list or an object could be left out of is null instead."""
    if isinstance(value, dict):
        return {key: None if key not in KEPT else _nulled(item) for key, item in value.items()}
    return value


KEPT = {"metadata", "spec", "status", "name", "uid", "resourceVersion"}


def test_nulls_count_as_left_out() -> None:
    pod = wire.decode_pod(json.dumps(_nulled(POD)).encode())
    assert pod.metadata.uid == "1f7c"
    assert pod.metadata.annotations == {}
    assert pod.spec.containers == ()
    assert pod.status.phase == ""


def test_node_is_read() -> None:
    node = {
        "metadata": {"name": "n1", "uid": "1", "resourceVersion": "5"},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "allocatable": {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "8"},
            "images": [{"names": ["x"]}],
        },
    }
    page = wire.NODES.page(json.dumps({"metadata": {"continue": "t"}, "items": [node]}).encode())
    assert page.metadata.continue_ == "t"
    assert page.items is not None
    (read,) = page.items
    assert read.ready
    assert read.spec.unschedulable
    assert read.spec.taints[0].effect == "NoSchedule"
    assert read.status.allocatable["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("ADDED", wire.Added), ("MODIFIED", wire.Modified), ("DELETED", wire.Deleted)],
)
def test_events_are_told_apart(kind: str, expected: type) -> None:
    event = wire.PODS.event(json.dumps({"type": kind, "object": POD}).encode())
    assert isinstance(event, expected)


def test_error_event_carries_its_status() -> None:
    status = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 3}}
    event = wire.PODS.event(json.dumps({"type": "ERROR", "object": status}).encode())
    assert isinstance(event, wire.WatchError)
    assert event.object.retry_after_seconds == 3


@pytest.mark.parametrize(
    "line",
    [b"", b"\n", b"null", b"[]", b"{}", b'{"type":"ADDED"}', b'{"type":"OTHER","object":{}}',
     b'{"type":"ADDED","object":{"metadata":{"uid":7}}}', b'{"type":"ADDED","object":null}',
     b"\xff\xfe", b"[" * 100_000],
)  # fmt: skip
def test_anything_else_is_garbled(line: bytes) -> None:
    with pytest.raises(KubeGarbled):
        wire.PODS.event(line)


def test_written_condition_has_only_what_is_set() -> None:
    import msgspec

    assert msgspec.json.encode(wire.PodCondition("A", "True")) == b'{"type":"A","status":"True"}'
