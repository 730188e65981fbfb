"""pods/binding: what it does, and how it refuses."""

from __future__ import annotations

from tests.contract.kube.client import JSON_PATCH, KubeClient, Namespace, binding, condition

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


async def test_binding_puts_the_pod_on_the_node_and_marks_it_scheduled(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    answer = await namespace.bind(node="n-x")
    assert answer.status == 201
    assert (answer.body["kind"], answer.body["status"]) == ("Status", "Success")
    pod = (await kube.get(namespace.path("pods", "p1"))).body
    assert pod["spec"]["nodeName"] == namespace.node("n-x")
    assert condition(pod, "PodScheduled")["status"] == "True"


async def test_binding_copies_its_annotations_onto_the_pod(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod(metadata={"annotations": {"mine": "1", "both": "old"}})
    await namespace.bound(metadata={"annotations": {"both": "new", "theirs": "2"}})
    pod = (await kube.get(namespace.path("pods", "p1"))).body
    assert pod["metadata"]["annotations"] == {"mine": "1", "both": "new", "theirs": "2"}


async def test_binding_to_a_node_that_does_not_exist_is_accepted(namespace: Namespace) -> None:
    await namespace.pod()
    assert (await namespace.bind(node="there-is-no-such-node")).status == 201


async def test_binding_twice_conflicts_and_names_the_first_node(namespace: Namespace) -> None:
    await namespace.pod()
    await namespace.bound(node="n1")
    for node in ("n2", "n1"):
        refusal = (await namespace.bind(node=node)).refused(409, "Conflict")
        first = namespace.node("n1")
        assert f'pod p1 is already assigned to node "{first}"' in refusal["message"]


async def test_binding_of_another_uid_conflicts(kube: KubeClient, namespace: Namespace) -> None:
    pod = await namespace.pod()
    other = "11111111-2222-3333-4444-555555555555"
    refusal = (await namespace.bind(metadata={"uid": other})).refused(409, "Conflict")
    assert "Precondition failed: UID in precondition" in refusal["message"]
    assert "nodeName" not in (await kube.get(namespace.path("pods", "p1"))).body["spec"]
    assert (await namespace.bind(metadata={"uid": pod.uid})).status == 201


async def test_binding_of_a_pod_that_is_not_there_is_not_found(namespace: Namespace) -> None:
    (await namespace.bind("never-was")).refused(404, "NotFound")


async def test_binding_of_a_pod_that_is_being_deleted_conflicts(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod(metadata={"finalizers": ["example.com/hold"]})
    await kube.delete(namespace.path("pods", "p1"))
    refusal = (await namespace.bind()).refused(409, "Conflict")
    assert "is being deleted, cannot be assigned to a host" in refusal["message"]


async def test_binding_of_a_gated_pod_conflicts_until_the_gate_is_gone(
    kube: KubeClient, namespace: Namespace
) -> None:
    pod = await namespace.pod(schedulingGates=[{"name": "example.com/wait"}])
    assert condition(pod.body, "PodScheduled")["reason"] == "SchedulingGated"
    refusal = (await namespace.bind()).refused(409, "Conflict")
    assert "has non-empty .spec.schedulingGates" in refusal["message"]
    remove = [{"op": "remove", "path": "/spec/schedulingGates"}]
    assert (await kube.patch(namespace.path("pods", "p1"), remove, JSON_PATCH)).status == 200
    assert (await namespace.bind()).status == 201


async def test_binding_must_name_the_pod_of_its_path(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    path = namespace.path("pods", "p1/binding")
    (await kube.post(path, binding("p2"))).refused(400, "BadRequest")


async def test_binding_may_add_more_annotations_than_fit_and_no_status_is_taken_ever_after(
    kube: KubeClient, namespace: Namespace
) -> None:
    """The limit is 256 KiB. A binding does not check it, so the binder has to."""
    await namespace.pod(metadata={"annotations": {"mine": "a" * (256 * 1024 - len("mine") - 10)}})
    assert (await namespace.set_status("p1", message="before")).status == 200
    job_id = {"slurm-pod-scheduler/job-id": "4711"}
    status = namespace.path("pods", "p1/status")
    refusal = (await kube.patch(status, {"metadata": {"annotations": job_id}})).refused(
        422, "Invalid"
    )
    assert "metadata.annotations: Too long: may not be more than 262144 bytes" in refusal["message"]
    assert (await namespace.bind(metadata={"annotations": job_id})).status == 201
    (await namespace.set_status("p1", message="after")).refused(422, "Invalid")


async def test_binding_puts_its_labels_and_the_zone_of_the_node_on_the_pod(
    kube: KubeClient, namespace: Namespace
) -> None:
    name = namespace.node("zoned")
    labels = {_ZONE: "a", _REGION: "r", "topology.example.com/rack": "7"}
    made = await kube.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
    assert made.status == 201
    try:
        await namespace.pod(metadata={"labels": {"app": "x", _ZONE: "mine"}})
        await namespace.bound(node="zoned", metadata={"labels": {"more": "1", _REGION: "its"}})
        pod = (await kube.get(namespace.path("pods", "p1"))).body
    finally:
        await kube.delete(f"/api/v1/nodes/{name}")
    assert pod["metadata"]["labels"] == {"app": "x", "more": "1", _ZONE: "a", _REGION: "r"}
