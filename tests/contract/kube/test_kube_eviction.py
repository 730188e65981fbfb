"""pods/eviction, and the budgets that may forbid it."""

from __future__ import annotations

from tests.contract.kube.client import (
    Answer,
    KubeClient,
    Namespace,
    condition,
    eventually,
)

POLICY = "/apis/policy/v1"


async def _evict(kube: KubeClient, namespace: Namespace, name: str) -> Answer:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return await kube.post(namespace.path("pods", f"{name}/eviction"), body)


async def _ready_pod(namespace: Namespace, name: str) -> None:
    await namespace.pod(name, metadata={"labels": {"app": "guarded"}})
    await namespace.bound(name)
    ready = [{"type": "Ready", "status": "True"}]
    answer = await namespace.set_status(name, phase="Running", conditions=ready)
    assert answer.status == 200


async def _budget(kube: KubeClient, namespace: Namespace, *, healthy: int) -> None:
    """Create a budget by which one pod must stay, and wait until it counts `healthy` pods."""
    selector = {"matchLabels": {"app": "guarded"}}
    body = {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}}
    path = namespace.path("poddisruptionbudgets", api=POLICY)
    assert (await kube.post(path, body)).status == 201

    async def counted() -> bool:
        status = (await kube.get(f"{path}/b")).body.get("status", {})
        return status.get("currentHealthy") == healthy and "observedGeneration" in status

    await eventually(counted, f"the budget counts {healthy} healthy pods")


async def test_eviction_deletes_with_grace_and_says_why(
    kube: KubeClient, namespace: Namespace
) -> None:
    await _ready_pod(namespace, "p1")
    answer = await _evict(kube, namespace, "p1")
    assert (answer.status, answer.body["status"]) == (201, "Success")
    pod = (await kube.get(namespace.path("pods", "p1"))).body
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 30
    assert condition(pod, "DisruptionTarget")["reason"] == "EvictionByEvictionAPI"


async def test_eviction_against_the_budget_is_too_many_requests(
    kube: KubeClient, namespace: Namespace
) -> None:
    await _ready_pod(namespace, "p1")
    await _budget(kube, namespace, healthy=1)
    refusal = (await _evict(kube, namespace, "p1")).refused(429, "TooManyRequests")
    assert "would violate the pod's disruption budget" in refusal["message"]
    assert refusal["details"]["causes"][0]["reason"] == "DisruptionBudget"
    pod = (await kube.get(namespace.path("pods", "p1"))).body
    assert "deletionTimestamp" not in pod["metadata"]


async def test_eviction_within_the_budget_is_done(kube: KubeClient, namespace: Namespace) -> None:
    for name in ("p1", "p2"):
        await _ready_pod(namespace, name)
    await _budget(kube, namespace, healthy=2)
    assert (await _evict(kube, namespace, "p1")).status == 201
    assert (await _evict(kube, namespace, "p2")).status == 429


async def test_budget_does_not_hold_pods_that_have_not_started(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod("waiting", metadata={"labels": {"app": "guarded"}})
    await _ready_pod(namespace, "p1")
    await _budget(kube, namespace, healthy=1)
    assert (await _evict(kube, namespace, "waiting")).status == 201


async def test_budget_does_not_hold_a_deletion(kube: KubeClient, namespace: Namespace) -> None:
    await _ready_pod(namespace, "p1")
    await _budget(kube, namespace, healthy=1)
    assert (await kube.delete(namespace.path("pods", "p1"))).status == 200


async def test_eviction_of_what_is_not_there_is_not_found(
    kube: KubeClient, namespace: Namespace
) -> None:
    (await _evict(kube, namespace, "never-was")).refused(404, "NotFound")
