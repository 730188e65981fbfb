"""Deletion: at once, with grace, under conditions, held by finalizers."""

from __future__ import annotations

from tests.contract.kube.client import MERGE, Answer, KubeClient, Namespace, eventually, pod

OTHER_UID = "11111111-2222-3333-4444-555555555555"


async def _gone(kube: KubeClient, path: str) -> bool:
    return (await kube.get(path)).status == 404


async def test_pod_that_was_never_bound_goes_at_once(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    path = namespace.path("pods", "p1")
    answer = await kube.delete(path)
    assert (answer.status, answer.body["kind"]) == (200, "Pod")
    assert await _gone(kube, path)


async def test_bound_pod_waits_for_its_kubelet(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod(terminationGracePeriodSeconds=17)
    await namespace.bound()
    path = namespace.path("pods", "p1")
    answer = await kube.delete(path)
    metadata = answer.body["metadata"]
    assert answer.status == 200
    assert metadata["deletionTimestamp"]
    assert metadata["deletionGracePeriodSeconds"] == 17
    assert (await kube.get(path)).body["metadata"]["deletionTimestamp"]


async def test_nothing_new_in_a_namespace_that_is_being_deleted(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod(metadata={"finalizers": ["example.com/hold"]})
    await kube.delete(f"/api/v1/namespaces/{namespace.name}")
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Pod", "namespace": namespace.name, "name": "p1"},
    }
    for answer in (
        await kube.post(namespace.path("pods"), pod("p2")),
        await kube.post(namespace.path("events"), event),
        await namespace.bind(),
    ):
        error = answer.refused(403, "Forbidden")
        why = f"unable to create new content in namespace {namespace.name} because it is being"
        assert error["message"].endswith(f"is forbidden: {why} terminated")
        assert error["details"]["causes"] == [
            {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace.name} is being terminated",
                "field": "metadata.namespace",
            }
        ]


async def test_second_deletion_may_shorten_but_not_lengthen_the_grace(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    await namespace.bound()
    path = namespace.path("pods", "p1")

    async def grace_after(**options: int) -> int:
        answer = await kube.delete(path, **options)
        assert answer.status == 200
        return int(answer.body["metadata"]["deletionGracePeriodSeconds"])

    assert await grace_after(gracePeriodSeconds=20) == 20
    assert await grace_after(gracePeriodSeconds=25) == 20
    assert await grace_after(gracePeriodSeconds=5) == 5
    assert await grace_after() == 5


async def test_grace_zero_removes_a_bound_pod_at_once(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod()
    await namespace.bound()
    path = namespace.path("pods", "p1")
    assert (await kube.delete(path, gracePeriodSeconds=0)).status == 200
    assert await _gone(kube, path)


async def test_finished_pod_goes_at_once(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    await namespace.bound()
    await namespace.set_status("p1", phase="Succeeded")
    path = namespace.path("pods", "p1")
    await kube.delete(path)
    assert await _gone(kube, path)


async def test_deletion_of_another_uid_conflicts(kube: KubeClient, namespace: Namespace) -> None:
    pod = await namespace.pod()
    path = namespace.path("pods", "p1")
    answer = await kube.delete(path, preconditions={"uid": OTHER_UID})
    message = answer.refused(409, "Conflict")["message"]
    assert "the UID in the precondition" in message
    assert "does not match the UID in record" in message
    assert (await kube.delete(path, preconditions={"uid": pod.uid})).status == 200


async def test_deletion_of_another_version_conflicts(
    kube: KubeClient, namespace: Namespace
) -> None:
    pod = await namespace.pod()
    path = namespace.path("pods", "p1")
    await kube.patch(path, {"metadata": {"labels": {"a": "b"}}})
    answer = await kube.delete(path, preconditions={"resourceVersion": pod.version})
    message = answer.refused(409, "Conflict")["message"]
    assert "the ResourceVersion in the precondition" in message


async def test_deletion_of_what_is_not_there_is_not_found(
    kube: KubeClient, namespace: Namespace
) -> None:
    (await kube.delete(namespace.path("pods", "never-was"))).refused(404, "NotFound")


async def test_finalizer_holds_the_object_until_it_is_removed(
    kube: KubeClient, namespace: Namespace
) -> None:
    await namespace.pod(metadata={"finalizers": ["example.com/hold"]})
    path = namespace.path("pods", "p1")
    answer = await kube.delete(path)
    assert answer.body["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}
    (await kube.patch(path, more, MERGE)).refused(422, "Invalid")
    assert (await kube.patch(path, {"metadata": {"finalizers": None}}, MERGE)).status == 200
    assert await _gone(kube, path)


async def test_most_deletions_answer_a_status_with_the_uid(
    kube: KubeClient, namespace: Namespace
) -> None:
    made = await kube.post(namespace.path("configmaps"), {"metadata": {"name": "c"}})
    answer = await kube.delete(namespace.path("configmaps", "c"))
    assert (answer.status, answer.body["kind"], answer.body["status"]) == (200, "Status", "Success")
    assert answer.body["details"]["uid"] == made.uid


async def test_collection_is_deleted_by_selector(kube: KubeClient, namespace: Namespace) -> None:
    for name, team in (("a", "red"), ("b", "red"), ("c", "blue")):
        await namespace.pod(name, metadata={"labels": {"team": team}})
    pods = namespace.path("pods")
    answer = await kube.call("DELETE", pods, query={"labelSelector": "team=red"})
    assert answer.status == 200
    left = (await kube.get(pods)).body["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


async def test_namespace_takes_its_contents_with_it(kube: KubeClient, namespace: Namespace) -> None:
    await namespace.pod()
    await kube.post(namespace.path("configmaps"), {"metadata": {"name": "c"}})
    path = f"/api/v1/namespaces/{namespace.name}"
    answer = await kube.delete(path)
    assert answer.status == 200

    async def gone() -> bool:
        return await _gone(kube, path)

    await eventually(gone, "the namespace is gone")
    assert (await kube.get(namespace.path("pods"))).body["items"] == []


async def _owned(kube: KubeClient, namespace: Namespace) -> Answer:
    owner = await kube.post(namespace.path("configmaps"), {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    await namespace.pod(metadata={"ownerReferences": [reference]})
    return owner


async def test_what_an_object_owned_is_collected(kube: KubeClient, namespace: Namespace) -> None:
    await _owned(kube, namespace)
    await kube.delete(namespace.path("configmaps", "owner"), propagationPolicy="Background")

    async def gone() -> bool:
        return await _gone(kube, namespace.path("pods", "p1"))

    await eventually(gone, "the owned pod is gone")


async def test_what_an_object_of_an_unknown_kind_owns_is_kept(
    kube: KubeClient, namespace: Namespace
) -> None:
    """The collector cannot look for the owner, such as an MPIJob where none are defined."""
    known = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": OTHER_UID}
    unknown = {**known, "apiVersion": "unknown.example/v1", "kind": "Unknown"}
    await namespace.pod(metadata={"ownerReferences": [unknown]})
    await namespace.pod("p2", metadata={"ownerReferences": [known, {**unknown, "uid": "2"}]})
    await namespace.pod("p3", metadata={"ownerReferences": [known]})

    async def gone() -> bool:
        return await _gone(kube, namespace.path("pods", "p3"))

    await eventually(gone, "the pod whose owner is gone is gone")
    left = (await kube.get(namespace.path("pods"))).body["items"]
    assert [it["metadata"]["name"] for it in left] == ["p1", "p2"]


async def test_what_an_object_owned_is_orphaned_on_demand(
    kube: KubeClient, namespace: Namespace
) -> None:
    # Both are of one kind, so the collector sees them in one watch, and so in order.
    owner = await kube.post(namespace.path("configmaps"), {"metadata": {"name": "owner"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid}
    metadata = {"name": "owned", "ownerReferences": [reference]}
    await kube.post(namespace.path("configmaps"), {"metadata": metadata})
    await kube.delete(namespace.path("configmaps", "owner"), propagationPolicy="Orphan")

    async def gone() -> bool:
        return await _gone(kube, namespace.path("configmaps", "owner"))

    await eventually(gone, "the owner is gone")
    left = (await kube.get(namespace.path("configmaps", "owned"))).body
    assert "ownerReferences" not in left["metadata"]


async def test_same_name_is_another_uid(kube: KubeClient, namespace: Namespace) -> None:
    first = await namespace.pod()
    await kube.delete(namespace.path("pods", "p1"))
    second = await namespace.pod()
    assert first.uid != second.uid
