"""A pod's resource requests change through pods/resize and in no other way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.kube.client import Answer, KubeClient, Namespace
from tests.contract.kube.conftest import KubePeer


def _requests(cpu: str, memory: str = "64Mi", **more: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory, **more}}
    return {"spec": {"containers": [{"name": "main", "resources": resources}]}}


async def _pod(namespace: Namespace) -> Answer:
    (container,) = _requests("1")["spec"]["containers"]
    return await namespace.pod(containers=[{**container, "image": "none"}])


def _asked(answer: Answer) -> Any:
    return answer.body["spec"]["containers"][0]["resources"]["requests"]


@pytest.mark.parametrize("bound", [False, True], ids=["waiting", "bound"])
async def test_resize_changes_requests(
    kube: KubeClient, kube_peer: KubePeer, namespace: Namespace, bound: bool
) -> None:
    pod = await _pod(namespace)
    if bound:
        target = {"kind": "Node", "name": kube_peer.nodes[0]}
        path = namespace.path("pods", "p1/binding")
        assert (await kube.post(path, {"metadata": {"name": "p1"}, "target": target})).status == 201
    answer = await kube.patch(namespace.path("pods", "p1/resize"), _requests("2", "128Mi"))
    assert (answer.status, _asked(answer)) == (200, {"cpu": "2", "memory": "128Mi"})
    read = await kube.get(namespace.path("pods", "p1"))
    assert _asked(read) == {"cpu": "2", "memory": "128Mi"}
    assert read.body["metadata"]["generation"] > pod.body["metadata"]["generation"]


async def test_requests_change_nowhere_else(kube: KubeClient, namespace: Namespace) -> None:
    await _pod(namespace)
    refused = await kube.patch(namespace.path("pods", "p1"), _requests("4"))
    assert "pod updates may not change fields" in refused.refused(422, "Invalid")["message"]
    assert (await kube.patch(namespace.path("pods", "p1/status"), _requests("4"))).status == 200
    assert _asked(await kube.get(namespace.path("pods", "p1")))["cpu"] == "1"


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"schedulerName": "other"}},
        {"spec": {"containers": [{"name": "main", "image": "other"}]}},
        {"spec": {"terminationGracePeriodSeconds": 1}},
        {"metadata": {"labels": {"a": "b"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ],
    ids=str,
)
async def test_resize_ignores_everything_else(
    kube: KubeClient, namespace: Namespace, patch: dict[str, Any]
) -> None:
    before = await _pod(namespace)
    answer = await kube.patch(namespace.path("pods", "p1/resize"), patch)
    assert (answer.status, answer.body["spec"]) == (200, before.body["spec"])
    for field in ("labels", "annotations"):
        assert field not in answer.body["metadata"]


async def test_resize_is_for_cpu_and_memory_alone(kube: KubeClient, namespace: Namespace) -> None:
    await _pod(namespace)
    patch = _requests("1", **{"example.com/gpu": "1"})
    patch["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    answer = await kube.patch(namespace.path("pods", "p1/resize"), patch)
    assert "only cpu and memory resources are mutable" in answer.refused(422, "Invalid")["message"]
