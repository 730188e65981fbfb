"""Controllers: they create and replace the pods of their workloads."""

from __future__ import annotations

from typing import Any

from tests.contract.kube.client import MERGE, NOBODY, Body, KubeClient, Namespace, eventually

APPS = "/apis/apps/v1"
BATCH = "/apis/batch/v1"
LABELS = {"app": "x"}


def _template(**spec: Any) -> Body:
    container = {"name": "main", "image": "example.invalid/none:1"}
    return {
        "metadata": {"labels": LABELS},
        "spec": {"schedulerName": NOBODY, "containers": [container], **spec},
    }


async def _deploy(kube: KubeClient, namespace: Namespace, replicas: int) -> str:
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": _template()}
    path = namespace.path("deployments", api=APPS)
    assert (await kube.post(path, {"metadata": {"name": "d"}, "spec": spec})).status == 201
    return f"{path}/d"


async def test_deployment_makes_its_pods_and_replaces_a_deleted_one(
    kube: KubeClient, namespace: Namespace
) -> None:
    await _deploy(kube, namespace, 2)
    first, second = await namespace.pods(2)
    owner = first["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)
    await kube.delete(namespace.path("pods", first["metadata"]["name"]))

    async def replaced() -> bool:
        names = {each["metadata"]["name"] for each in await namespace.pods(2)}
        return first["metadata"]["name"] not in names and second["metadata"]["name"] in names

    await eventually(replaced, "the deleted pod is replaced")


async def test_deployment_scales(kube: KubeClient, namespace: Namespace) -> None:
    path = await _deploy(kube, namespace, 1)
    await namespace.pods(1)
    scale = await kube.get(f"{path}/scale")
    assert scale.body["spec"]["replicas"] == 1
    answer = await kube.patch(f"{path}/scale", {"spec": {"replicas": 3}}, MERGE)
    assert answer.body["spec"]["replicas"] == 3
    await namespace.pods(3)


async def test_deleted_deployment_takes_its_pods_with_it(
    kube: KubeClient, namespace: Namespace
) -> None:
    path = await _deploy(kube, namespace, 2)
    await namespace.pods(2)
    await kube.delete(path, propagationPolicy="Foreground")
    await namespace.pods(0)

    async def gone() -> bool:
        return (await kube.get(path)).status == 404

    await eventually(gone, "the Deployment is gone")


async def test_new_template_replaces_the_pods(kube: KubeClient, namespace: Namespace) -> None:
    path = await _deploy(kube, namespace, 1)
    (old,) = await namespace.pods(1)
    changed = _template()
    changed["metadata"] = {"labels": LABELS, "annotations": {"round": "2"}}
    patch = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None}, "template": changed}}
    assert (await kube.patch(path, patch)).status == 200

    async def renewed() -> bool:
        (pod,) = await namespace.pods(1)
        return bool(pod["metadata"]["uid"] != old["metadata"]["uid"])

    await eventually(renewed, "a pod of the new template")


async def _job(kube: KubeClient, namespace: Namespace, **spec: Any) -> str:
    path = namespace.path("jobs", api=BATCH)
    body = {
        "metadata": {"name": "j"},
        "spec": {"template": _template(restartPolicy="Never"), **spec},
    }
    assert (await kube.post(path, body)).status == 201
    return f"{path}/j"


async def _job_ends(kube: KubeClient, path: str, kind: str) -> Body:
    async def look() -> Body | None:
        status: Body = (await kube.get(path)).body.get("status", {})
        ended = [c for c in status.get("conditions") or () if c["type"] == kind]
        return status if ended and ended[0]["status"] == "True" else None

    found: Body = await eventually(look, f"the Job is {kind}")
    return found


async def test_job_is_complete_when_its_pod_has_succeeded(
    kube: KubeClient, namespace: Namespace
) -> None:
    path = await _job(kube, namespace)
    (pod,) = await namespace.pods(1)
    await namespace.set_status(pod["metadata"]["name"], phase="Succeeded")
    status = await _job_ends(kube, path, "Complete")
    assert status["succeeded"] == 1


async def test_job_fails_when_its_limit_is_reached(kube: KubeClient, namespace: Namespace) -> None:
    path = await _job(kube, namespace, backoffLimit=0)
    (pod,) = await namespace.pods(1)
    await namespace.set_status(pod["metadata"]["name"], phase="Failed")
    status = await _job_ends(kube, path, "Failed")
    assert status["failed"] == 1


async def test_job_template_may_not_restart_always(kube: KubeClient, namespace: Namespace) -> None:
    body = {"metadata": {"name": "j"}, "spec": {"template": _template(restartPolicy="Always")}}
    answer = await kube.post(namespace.path("jobs", api=BATCH), body)
    assert "restartPolicy" in answer.refused(422, "Invalid")["message"]
