"""The scale subresource: the wanted and the present number of a workload's replicas."""

from __future__ import annotations

from typing import Any

from scheduler.sandbox.kube import patches, selectors
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import Body, Resource


def view(body: Body) -> Body:
    """The workload as an autoscaling/v1 Scale."""
    metadata = body["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    wanted = selectors.from_object(body["spec"].get("selector")) or ()
    labels = ",".join(f"{each.key}={next(iter(each.values), '')}" for each in wanted)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": body["spec"].get("replicas", 1)},
        "status": {"replicas": body["status"].get("replicas", 0), "selector": labels},
    }


def update(model: KubeModel, resource: Resource, namespace: str, name: str, scale: Any) -> Body:
    """Set the replicas from a whole Scale, or from a merge patch of one."""
    old = model.get(resource, namespace, name).body
    merged = patches.merge(view(old), scale)
    replicas = {"spec": {"replicas": merged["spec"]["replicas"]}}
    version = {"metadata": {"resourceVersion": merged["metadata"]["resourceVersion"]}}
    stored = model.patch(
        resource, namespace, name, {**replicas, **version}, content_type=patches.MERGE_PATCH
    )
    return view(stored.body)
