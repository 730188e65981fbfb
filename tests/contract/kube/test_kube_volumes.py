"""Claims and volumes, with the fields that a scheduler reads. Nothing binds them here."""

from __future__ import annotations

from tests.contract.kube.client import KubeClient, Namespace

SIZE = {"storage": "1Gi"}


async def test_claim_keeps_the_volume_that_it_names(kube: KubeClient, namespace: Namespace) -> None:
    body = {
        "metadata": {"name": "data", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": SIZE},
            "storageClassName": "",
            "volumeName": f"{namespace.name}-data",
        },
    }
    made = await kube.post(namespace.path("persistentvolumeclaims"), body)
    assert made.status == 201, made.body
    assert made.body["spec"]["volumeName"] == f"{namespace.name}-data"
    assert made.body["status"]["phase"] == "Pending"
    listed = await kube.get("/api/v1/persistentvolumeclaims")
    assert made.uid in {it["metadata"]["uid"] for it in listed.body["items"]}


async def test_volume_says_from_which_nodes_it_is_reached(
    kube: KubeClient, namespace: Namespace
) -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    affinity = {"required": {"nodeSelectorTerms": [term]}}
    body = {
        "metadata": {"name": f"{namespace.name}-data"},
        "spec": {
            "capacity": SIZE,
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/data"},
            "nodeAffinity": affinity,
        },
    }
    made = await kube.post("/api/v1/persistentvolumes", body)
    assert made.status == 201, made.body
    try:
        found = await kube.get(f"/api/v1/persistentvolumes/{namespace.name}-data")
        assert found.body["spec"]["nodeAffinity"] == affinity
    finally:
        await kube.delete(f"/api/v1/persistentvolumes/{namespace.name}-data")


async def test_pods_on_nodes_are_listed_without_those_that_have_none_or_have_ended(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod("waits")
    await namespace.pod("placed", nodeName=namespace.node("n"))
    ended = await namespace.pod("ended", nodeName=namespace.node("n"))
    status = {"metadata": {"uid": ended.uid}, "status": {"phase": "Succeeded"}}
    path = namespace.path("pods", "ended/status")
    assert (await kube.patch(path, status)).status == 200
    query = "fieldSelector=spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
    listed = await kube.get(f"{namespace.path('pods')}?{query}")
    assert [it["metadata"]["name"] for it in listed.body["items"]] == ["placed"]
