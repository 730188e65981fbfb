"""The defaults that the server fills in, as in Kubernetes 1.36."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from scheduler.sandbox.kube import quantities
from scheduler.sandbox.kube.meta import with_condition
from scheduler.sandbox.kube.resources import Resource

Body = dict[str, Any]

GRACE_SECONDS = 30
UNREACHABLE_SECONDS = 300


def apply_defaults(resource: Resource, body: Body) -> Body:
    """The object with its defaults. Callers use this on create and on every update of spec."""
    defaulting = _BY_KIND.get(resource.kind)
    return body if defaulting is None or resource.stored_as else defaulting(body)


def initial_status(resource: Resource, body: Body) -> Body:
    """A new object with its first status. A status from the sender counts for Nodes only."""
    if not resource.has_status:
        return body
    match resource.kind:
        case "Node":
            return {"status": {}, **body}
        case "Pod":
            return {**body, "status": _pod_status(body["spec"])}
        case "Namespace":
            return {**body, "status": {"phase": "Active"}}
        case "PersistentVolumeClaim" | "PersistentVolume":
            return {**body, "status": {"phase": "Pending"}}
        case "Service":
            return {**body, "status": {"loadBalancer": {}}}
        case _:
            return {**body, "status": {}}


def status_as_stored(resource: Resource, status: Body) -> Body:
    """The status as a Go server stores it: a pod condition always has both times, even as null."""
    conditions = status.get("conditions")
    if resource.kind != "Pod" or not conditions:
        return status
    return {**status, "conditions": [{**_NO_TIMES, **each} for each in conditions]}


_NO_TIMES = {"lastProbeTime": None, "lastTransitionTime": None}


def qos_class(spec: Body) -> str:
    """Guaranteed, Burstable or BestEffort, by the CPU and memory of all containers."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    resources = [container.get("resources") or {} for container in containers]
    if not any(_compute(r.get("requests")) or _compute(r.get("limits")) for r in resources):
        return "BestEffort"
    for each in resources:
        limits, requests = _compute(each.get("limits")), _compute(each.get("requests"))
        if len(limits) < 2 or requests != limits:
            return "Burstable"
    return "Guaranteed"


def _compute(amounts: Body | None) -> Body:
    parsed = {
        name: quantities.parse(value)
        for name, value in (amounts or {}).items()
        if name in {"cpu", "memory"}
    }
    return {name: value for name, value in parsed.items() if value}


def _pod_status(spec: Body) -> Body:
    status: Body = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [{**_NO_TIMES, **each} for each in with_condition(None, gated)]
    status["qosClass"] = qos_class(spec)
    return status


def _pod(body: Body) -> Body:
    spec = pod_spec(body.get("spec") or {})
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec["tolerations"] = _tolerations(spec.get("tolerations"))
    return {**body, "spec": spec}


def _tolerations(given: list[Body] | None) -> list[Body]:
    tolerations = list(given or ())
    if any(not each.get("key") for each in tolerations):
        return tolerations
    for condition in ("not-ready", "unreachable"):
        key = f"node.kubernetes.io/{condition}"
        if all(each.get("key") != key for each in tolerations):
            tolerations.append(
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": UNREACHABLE_SECONDS,
                }
            )
    return tolerations


def pod_spec(given: Body) -> Body:
    """The spec of a pod or of a pod template, with the defaults that both have."""
    spec = dict(given)
    spec.setdefault("restartPolicy", "Always")
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = GRACE_SECONDS
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("enableServiceLinks", True)
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            spec[field] = [_container(each) for each in spec[field]]
    if spec.get("overhead"):
        spec["overhead"] = quantities.as_text(spec["overhead"])
    return spec


def _container(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    container = dict(given)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(str(container.get("image", ""))))
    container["resources"] = _resources(container.get("resources") or {})
    if container.get("ports"):
        container["ports"] = [{"protocol": "TCP", **port} for port in container["ports"]]
    return container


def _pull_policy(image: str) -> str:
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in {"", "latest"} and "@" not in image else "IfNotPresent"


def _resources(given: Body) -> Body:
    resources = dict(given)
    for kind in ("requests", "limits"):
        if resources.get(kind):
            resources[kind] = quantities.as_text(resources[kind])
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    return resources


def _template(spec: Body) -> Body:
    template = spec.get("template") or {}
    return {**template, "spec": pod_spec(template.get("spec") or {})}


def _deployment(body: Body) -> Body:
    spec = dict(body.get("spec") or {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = {"type": "RollingUpdate", **(spec.get("strategy") or {})}
    if strategy["type"] == "RollingUpdate":
        rolling = {"maxSurge": "25%", "maxUnavailable": "25%"}
        strategy["rollingUpdate"] = {**rolling, **(strategy.get("rollingUpdate") or {})}
    spec["strategy"] = strategy
    spec["template"] = _template(spec)
    return {**body, "spec": spec}


def _replica_set(body: Body) -> Body:
    spec = dict(body.get("spec") or {})
    spec.setdefault("replicas", 1)
    spec["template"] = _template(spec)
    return {**body, "spec": spec}


def _job(body: Body) -> Body:
    spec = dict(body.get("spec") or {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    return {**body, "spec": _job_selector(body["metadata"], spec)}


def _job_selector(metadata: Body, spec: Body) -> Body:
    uid, name = metadata["uid"], metadata["name"]
    template = _template(spec)
    if not spec["manualSelector"]:
        labels = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        template_metadata = template.get("metadata") or {}
        merged = {**(template_metadata.get("labels") or {}), **labels}
        template["metadata"] = {**template_metadata, "labels": merged}
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    return {**spec, "template": template}


def _namespace(body: Body) -> Body:
    metadata = body["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    spec = {"finalizers": ["kubernetes"], **(body.get("spec") or {})}
    return {**body, "metadata": {**metadata, "labels": labels}, "spec": spec}


def _node(body: Body) -> Body:
    body = {**body, "spec": body.get("spec") or {}}  # unlike most empty fields, it is always sent
    status = body.get("status")
    if not status:
        return body
    amounts = {k: quantities.as_text(v) for k, v in status.items() if k in _NODE_AMOUNTS}
    return {**body, "status": {**status, **amounts}}


def _secret(body: Body) -> Body:
    secret = {"type": "Opaque", **body}
    if plain := secret.pop("stringData", None):
        encoded = {k: base64.b64encode(str(v).encode()).decode() for k, v in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}
    return secret


def _service(body: Body) -> Body:
    spec = {"type": "ClusterIP", "sessionAffinity": "None", **(body.get("spec") or {})}
    spec["ports"] = [
        {"protocol": "TCP", "targetPort": port.get("port"), **port}
        for port in spec.get("ports") or ()
    ]
    return {**body, "spec": spec}


_NODE_AMOUNTS = frozenset({"allocatable", "capacity"})
_BY_KIND: dict[str, Callable[[Body], Body]] = {
    "Pod": _pod,
    "Deployment": _deployment,
    "ReplicaSet": _replica_set,
    "Job": _job,
    "Namespace": _namespace,
    "Node": _node,
    "Secret": _secret,
    "Service": _service,
}
