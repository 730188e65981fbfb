"""Creation: defaults, names, and what is refused."""

from __future__ import annotations

from uuid import uuid4

from tests.contract.kube.client import KubeClient, Namespace, pod


async def test_pod_gets_its_defaults(kube: KubeClient, namespace: Namespace) -> None:
    limits = {"cpu": "2", "memory": "1Gi"}
    container = {"name": "main", "image": "example.invalid/none:1", "resources": {"limits": limits}}
    made = await namespace.pod(containers=[container])
    body = made.body
    assert body["metadata"]["uid"]
    assert body["metadata"]["creationTimestamp"].endswith("Z")
    assert body["metadata"]["namespace"] == namespace.name
    spec, status = body["spec"], body["status"]
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["priority"] == 0
    assert spec["serviceAccountName"] == "default"
    assert "nodeName" not in spec
    assert spec["containers"][0]["resources"] == {"limits": limits, "requests": limits}
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert status["phase"] == "Pending"
    assert status["qosClass"] == "Guaranteed"


async def test_sent_status_is_dropped(kube: KubeClient, namespace: Namespace) -> None:
    body = {**pod("p1"), "status": {"phase": "Running"}}
    answer = await kube.post(namespace.path("pods"), body)
    assert answer.body["status"]["phase"] == "Pending"


async def test_scheduler_name_defaults(kube: KubeClient, namespace: Namespace) -> None:
    body = pod("p1", nodeName="no-such-node")
    del body["spec"]["schedulerName"]
    answer = await kube.post(namespace.path("pods"), body)
    assert answer.body["spec"]["schedulerName"] == "default-scheduler"


async def test_name_is_generated_from_a_prefix(kube: KubeClient, namespace: Namespace) -> None:
    body = pod("")
    body["metadata"] = {"generateName": "run-"}
    names = {
        (await kube.post(namespace.path("pods"), body)).body["metadata"]["name"] for _ in range(2)
    }
    assert len(names) == 2
    assert all(name.startswith("run-") and len(name) == len("run-") + 5 for name in names)


async def test_name_is_taken(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    refusal = (await kube.post(namespace.path("pods"), pod("p1"))).refused(409, "AlreadyExists")
    assert refusal["message"] == 'pods "p1" already exists'


async def test_namespace_must_exist(kube: KubeClient) -> None:
    answer = await kube.post("/api/v1/namespaces/never-was/configmaps", {"metadata": {"name": "c"}})
    refusal = answer.refused(404, "NotFound")
    assert refusal["message"] == 'namespaces "never-was" not found'


async def test_pod_without_containers_is_invalid(kube: KubeClient, namespace: Namespace) -> None:
    answer = await kube.post(namespace.path("pods"), pod("p1", containers=[]))
    refusal = answer.refused(422, "Invalid")
    assert "spec.containers: Required value" in refusal["message"]
    assert "spec.containers" in {cause["field"] for cause in refusal["details"]["causes"]}


async def test_name_that_is_no_dns_name_is_invalid(kube: KubeClient, namespace: Namespace) -> None:
    answer = await kube.post(namespace.path("pods"), pod("Not_A_Name"))
    assert "metadata.name" in answer.refused(422, "Invalid")["message"]


async def test_request_above_its_limit_is_invalid(kube: KubeClient, namespace: Namespace) -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    container = {"name": "main", "image": "example.invalid/none:1", "resources": resources}
    answer = await kube.post(namespace.path("pods"), pod("p1", containers=[container]))
    refusal = answer.refused(422, "Invalid")
    assert "must be less than or equal to cpu limit" in refusal["message"]


async def test_extended_resource_needs_a_limit(kube: KubeClient, namespace: Namespace) -> None:
    resources = {"requests": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "example.invalid/none:1", "resources": resources}
    answer = await kube.post(namespace.path("pods"), pod("p1", containers=[container]))
    refusal = answer.refused(422, "Invalid")
    assert "Limit must be set for non overcommitable resources" in refusal["message"]


async def test_quantity_that_is_none_is_a_bad_request(
    kube: KubeClient, namespace: Namespace
) -> None:
    resources = {"requests": {"cpu": "much"}}
    container = {"name": "main", "image": "example.invalid/none:1", "resources": resources}
    answer = await kube.post(namespace.path("pods"), pod("p1", containers=[container]))
    assert "quantities must match" in answer.refused(400, "BadRequest")["message"]


async def test_body_of_another_kind_is_a_bad_request(
    kube: KubeClient, namespace: Namespace
) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    (await kube.post(namespace.path("pods"), body)).refused(400, "BadRequest")


async def test_body_for_another_namespace_is_a_bad_request(
    kube: KubeClient, namespace: Namespace
) -> None:
    body = pod("p1", metadata={"namespace": "elsewhere"})
    (await kube.post(namespace.path("pods"), body)).refused(400, "BadRequest")


async def test_body_that_is_no_json_is_a_bad_request(
    kube: KubeClient, namespace: Namespace
) -> None:
    answer = await kube.call("POST", namespace.path("pods"), "just text")
    answer.refused(400, "BadRequest")


async def test_event_is_one_object_in_two_versions(kube: KubeClient, namespace: Namespace) -> None:
    made = await namespace.pod()
    about = {"kind": "Pod", "namespace": namespace.name, "name": "p1", "uid": made.uid}
    event = {
        "metadata": {"name": "p1.1"},
        "involvedObject": about,
        "reason": "Scheduled",
        "message": "hello",
        "type": "Normal",
        "count": 1,
        "source": {"component": "contract"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    assert (await kube.post(namespace.path("events"), event)).status == 201
    selector = f"involvedObject.uid={made.uid},reason=Scheduled"
    found = await kube.get(namespace.path("events"), fieldSelector=selector)
    assert [item["message"] for item in found.body["items"]] == ["hello"]
    newer = await kube.get(namespace.path("events", "p1.1", api="/apis/events.k8s.io/v1"))
    assert newer.body["note"] == "hello"
    assert newer.body["regarding"]["uid"] == made.uid


async def test_node_shows_a_spec_even_where_it_is_empty(kube: KubeClient) -> None:
    name = f"bare-{uuid4().hex[:8]}"
    made = await kube.post("/api/v1/nodes", {"metadata": {"name": name}})
    try:
        taints = [{"key": "x", "effect": "NoSchedule"}]
        await kube.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
        cleared = await kube.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    finally:
        await kube.delete(f"/api/v1/nodes/{name}")
    shown = [
        {key: it for key, it in answer.body["spec"].items() if key != "taints"}
        for answer in (made, cleared)
    ]
    assert shown == [{}, {}]
