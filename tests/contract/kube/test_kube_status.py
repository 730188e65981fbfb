"""Patches and updates, mainly of pods/status."""

from __future__ import annotations

import pytest

from tests.contract.kube.client import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    KubeClient,
    Namespace,
    condition,
)

WAITING = {"type": "PodScheduled", "status": "False", "reason": "Waits", "message": "job 1"}


async def test_status_patch_stores_annotations_and_condition_together(
    kube: KubeClient, namespace: Namespace
) -> None:
    pod = await namespace.pod()
    patch = {
        "metadata": {"uid": pod.uid, "annotations": {"slurm-pod-scheduler/job-id": "7"}},
        "status": {"conditions": [WAITING]},
    }
    answer = await kube.patch(namespace.path("pods", "p1/status"), patch)
    assert answer.status == 200
    assert answer.body["metadata"]["annotations"] == {"slurm-pod-scheduler/job-id": "7"}
    assert condition(answer.body, "PodScheduled")["reason"] == "Waits"
    assert int(answer.version) > int(pod.version)


async def test_times_that_were_not_given_are_null(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    await namespace.set_status("p1", conditions=[WAITING])
    pod = (await kube.get(namespace.path("pods", "p1"))).body
    found = condition(pod, "PodScheduled")
    assert found == {**WAITING, "lastProbeTime": None, "lastTransitionTime": None}


async def test_strategic_merge_keeps_conditions_of_other_types(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    other = {"type": "example.com/Other", "status": "True"}
    await namespace.set_status("p1", conditions=[WAITING, other])
    answer = await namespace.set_status("p1", conditions=[{**WAITING, "message": "job 2"}])
    conditions = answer.body["status"]["conditions"]
    assert sorted(each["type"] for each in conditions) == ["PodScheduled", "example.com/Other"]
    assert condition(answer.body, "PodScheduled")["message"] == "job 2"


async def test_strategic_merge_deletes_a_list_element_by_its_key(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    await namespace.set_status("p1", conditions=[WAITING])
    answer = await namespace.set_status(
        "p1", conditions=[{"type": "PodScheduled", "$patch": "delete"}]
    )
    assert condition(answer.body, "PodScheduled") == {}


async def test_merge_patch_replaces_lists(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    await namespace.set_status("p1", conditions=[WAITING])
    other = {"type": "example.com/Other", "status": "True"}
    path = namespace.path("pods", "p1/status")
    answer = await kube.patch(path, {"status": {"conditions": [other]}}, MERGE)
    assert [each["type"] for each in answer.body["status"]["conditions"]] == ["example.com/Other"]


@pytest.mark.parametrize("content_type", [STRATEGIC, MERGE])
async def test_null_removes_an_annotation(
    kube: KubeClient, namespace: Namespace, content_type: str
) -> None:
    await namespace.pod(metadata={"annotations": {"a": "1", "b": "2"}})
    path = namespace.path("pods", "p1")
    answer = await kube.patch(path, {"metadata": {"annotations": {"a": None}}}, content_type)
    assert answer.body["metadata"]["annotations"] == {"b": "2"}


async def test_status_patch_of_another_uid_is_invalid(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    patch = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}, "status": {"reason": "x"}}
    answer = await kube.patch(namespace.path("pods", "p1/status"), patch)
    refusal = answer.refused(422, "Invalid")
    assert "metadata.uid" in refusal["message"]
    assert "field is immutable" in refusal["message"]


async def test_status_patch_does_not_touch_spec(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    patch = {"spec": {"priority": 5, "nodeName": "elsewhere"}, "status": {"message": "m"}}
    answer = await kube.patch(namespace.path("pods", "p1/status"), patch)
    assert answer.status == 200
    assert "nodeName" not in answer.body["spec"]
    assert answer.body["status"]["message"] == "m"


async def test_patch_of_the_pod_does_not_touch_status(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
    answer = await kube.patch(namespace.path("pods", "p1"), patch)
    assert answer.body["status"]["phase"] == "Pending"
    assert answer.body["metadata"]["labels"] == {"a": "b"}


async def test_pod_spec_is_immutable(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    answer = await kube.patch(namespace.path("pods", "p1"), {"spec": {"schedulerName": "other"}})
    assert "pod updates may not change fields" in answer.refused(422, "Invalid")["message"]


async def test_patch_with_a_stale_version_conflicts(kube: KubeClient, namespace: Namespace) -> None:
    pod = await namespace.pod()
    path = namespace.path("pods", "p1")
    await kube.patch(path, {"metadata": {"labels": {"a": "1"}}})
    stale = {"metadata": {"resourceVersion": pod.version, "labels": {"a": "2"}}}
    refusal = (await kube.patch(path, stale)).refused(409, "Conflict")
    assert "the object has been modified" in refusal["message"]


async def test_patch_that_changes_nothing_makes_no_new_version(
    kube: KubeClient, namespace: Namespace
) -> None:
    pod = await namespace.pod(metadata={"labels": {"a": "1"}})
    answer = await kube.patch(namespace.path("pods", "p1"), {"metadata": {"labels": {"a": "1"}}})
    assert answer.version == pod.version


async def test_json_patch_applies_and_tests(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod(metadata={"labels": {"a": "1"}})
    path = namespace.path("pods", "p1")
    add = {"op": "add", "path": "/metadata/labels/b~1c", "value": "2"}
    test = {"op": "test", "path": "/metadata/labels/a", "value": "1"}
    answer = await kube.patch(path, [test, add], JSON_PATCH)
    assert answer.body["metadata"]["labels"] == {"a": "1", "b/c": "2"}
    failing = [{**test, "value": "other"}, add]
    assert (await kube.patch(path, failing, JSON_PATCH)).status == 422


async def test_patch_of_an_unknown_format_is_refused(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    answer = await kube.patch(namespace.path("pods", "p1"), {}, "application/json")
    answer.refused(415, "UnsupportedMediaType")


async def test_patch_of_what_is_not_there_is_not_found(
    kube: KubeClient, namespace: Namespace
) -> None:
    path = namespace.path("pods", "never-was/status")
    refusal = (await kube.patch(path, {"status": {}})).refused(404, "NotFound")
    assert refusal["message"] == 'pods "never-was" not found'


async def test_put_with_a_stale_version_conflicts(kube: KubeClient, namespace: Namespace) -> None:
    made = await kube.post(namespace.path("configmaps"), {"metadata": {"name": "c"}})
    path = namespace.path("configmaps", "c")
    second = await kube.put(path, {**made.body, "data": {"a": "1"}})
    assert second.status == 200
    (await kube.put(path, {**made.body, "data": {"a": "2"}})).refused(409, "Conflict")


async def test_put_of_another_uid_conflicts(kube: KubeClient, namespace: Namespace) -> None:
    await kube.post(namespace.path("configmaps"), {"metadata": {"name": "c"}})
    other = {"metadata": {"name": "c", "uid": "11111111-2222-3333-4444-555555555555"}}
    refusal = (await kube.put(namespace.path("configmaps", "c"), other)).refused(409, "Conflict")
    assert "UID in precondition" in refusal["message"]


async def test_lease_update_needs_a_version(kube: KubeClient, namespace: Namespace) -> None:
    leases = namespace.path("leases", api="/apis/coordination.k8s.io/v1")
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15}
    made = await kube.post(leases, {"metadata": {"name": "l"}, "spec": spec})
    assert made.status == 201
    path = f"{leases}/l"
    body = {"metadata": {"name": "l"}, "spec": {**spec, "holderIdentity": "b"}}
    assert "must be specified" in (await kube.put(path, body)).refused(422, "Invalid")["message"]
    taken = {**made.body, "spec": {**made.body["spec"], "holderIdentity": "b"}}
    assert (await kube.put(path, taken)).status == 200
    (await kube.put(path, taken)).refused(409, "Conflict")


async def test_apply_creates_and_then_changes(kube: KubeClient, namespace: Namespace) -> None:
    path = namespace.path("configmaps", "c")
    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}

    async def apply(data: dict[str, str]) -> tuple[int, dict[str, str]]:
        body = {**wanted, "data": data}
        query = {"fieldManager": "contract"}
        answer = await kube.call("PATCH", path, body, content_type=APPLY, query=query)
        return answer.status, answer.body["data"]

    assert await apply({"a": "1", "b": "2"}) == (201, {"a": "1", "b": "2"})
    assert await apply({"a": "3"}) == (200, {"a": "3"})


async def test_dry_run_stores_nothing(kube: KubeClient, namespace: Namespace) -> None:
    query = {"dryRun": "All"}
    body = {"metadata": {"name": "c"}}
    answer = await kube.call("POST", namespace.path("configmaps"), body, query=query)
    assert answer.status == 201
    (await kube.get(namespace.path("configmaps", "c"))).refused(404, "NotFound")


async def test_generation_counts_changes_of_spec(kube: KubeClient, namespace: Namespace) -> None:
    deployments = namespace.path("deployments", api="/apis/apps/v1")
    labels = {"app": "x"}
    container = {"name": "main", "image": "example.invalid/none:1"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    made = await kube.post(deployments, {"metadata": {"name": "d"}, "spec": spec})
    assert made.body["metadata"]["generation"] == 1
    answer = await kube.patch(f"{deployments}/d", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert answer.body["metadata"]["generation"] == 1
    answer = await kube.patch(f"{deployments}/d", {"spec": {"minReadySeconds": 1}}, MERGE)
    assert answer.body["metadata"]["generation"] == 2
