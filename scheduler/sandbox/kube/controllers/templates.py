"""Makes a pod from the template of the workload that controls it."""

from __future__ import annotations

from scheduler.sandbox.kube.meta import LONGEST_PREFIX, controller_reference
from scheduler.sandbox.kube.resources import Body


def pod_of(
    owner: Body, *, labels: Body | None = None, annotations: Body | None = None, prefix: str = ""
) -> Body:
    """A new pod made from the owner's spec.template; the server completes its name."""
    template = owner["spec"]["template"]
    given = template.get("metadata") or {}
    name = owner["metadata"]["name"][: LONGEST_PREFIX - 1]
    metadata: Body = {
        "generateName": prefix or f"{name}-",
        "labels": {**(given.get("labels") or {}), **(labels or {})},
        "annotations": {**(given.get("annotations") or {}), **(annotations or {})},
        "ownerReferences": [controller_reference(owner)],
    }
    if given.get("finalizers"):
        metadata["finalizers"] = given["finalizers"]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": template["spec"]}
