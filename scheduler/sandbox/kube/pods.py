"""The actions on pods other than changes of the object: binding and eviction."""

from __future__ import annotations

from dataclasses import replace

from scheduler.sandbox.kube import budgets
from scheduler.sandbox.kube.deletion import DeleteOptions
from scheduler.sandbox.kube.errors import bad_request, conflict, disruption_budget, precondition
from scheduler.sandbox.kube.meta import is_finished, is_leaving, with_condition
from scheduler.sandbox.kube.model import KubeModel
from scheduler.sandbox.kube.resources import NODES, PODS, Body
from scheduler.sandbox.kube.store import Key, Stored

# The API server copies these labels of the Node (PodTopologyLabels, measured on Kubernetes 1.36.3).
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
# the eviction of a pod in one of these phases is not subject to a disruption budget
BEFORE_RUNNING = frozenset({"Pending"})


def bind(
    model: KubeModel, namespace: str, name: str, binding: Body, *, dry_run: bool = False
) -> None:
    """Bind the pod to a Node, and copy onto the pod the labels and annotations of the binding, and
    the Node's zone and region.

    The Node need not exist (measured on Kubernetes 1.36.3). Raises ApiError 403 if the namespace is
    being deleted. Otherwise raises ApiError 409 if the pod is bound, gated or being deleted, or has
    another uid or resourceVersion.
    """
    metadata = binding.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    target = binding.get("target") or {}
    if not target.get("name") or target.get("kind", "Node") not in {"", "Node"}:
        raise bad_request(f"target: Invalid value: {target}: must name a Node")
    model.check_lasts(PODS, namespace, name)
    pod = model.get(PODS, namespace, name)
    _check_binding(pod, (namespace, name), metadata)
    if dry_run:
        return
    node = target["name"]
    labels = (metadata.get("labels") or {}) | _topology_of(model, node)
    annotations = metadata.get("annotations") or {}
    bound = _bound(pod.body, node=node, labels=labels, annotations=annotations)
    model.store.put(PODS.storage, (namespace, name), bound)


def _check_binding(pod: Stored, key: Key, wanted: Body) -> None:
    name, found = key[1], pod.body["metadata"]
    for label, field in (("UID", "uid"), ("ResourceVersion", "resourceVersion")):
        if wanted.get(field) and wanted[field] != found[field]:
            raise precondition("pods", key, label, wanted=wanted[field], found=found[field])
    spec = pod.body["spec"]
    if is_leaving(pod.body):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict("pods/binding", name, why)
    if spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        raise conflict("pods/binding", name, why)
    if spec.get("schedulingGates"):
        raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def _topology_of(model: KubeModel, node: str) -> Body:
    found = model.find(NODES, "", node)
    labels = {} if found is None else found["metadata"].get("labels") or {}
    return {name: labels[name] for name in _TOPOLOGY if name in labels}


def _bound(pod: Body, *, node: str, labels: Body, annotations: Body) -> Body:
    metadata, status = pod["metadata"], pod["status"]
    for part, added in (("labels", labels), ("annotations", annotations)):
        if added:
            metadata = {**metadata, part: {**(metadata.get(part) or {}), **added}}
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None}
    conditions = with_condition(status.get("conditions"), scheduled)
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": conditions},
    }


def evict(
    model: KubeModel, namespace: str, name: str, options: DeleteOptions, *, dry_run: bool
) -> None:
    """Delete the pod if its disruption budgets allow that. Raises ApiError 429 if they do not."""
    pod = model.get(PODS, namespace, name).body
    if not (is_finished(pod) or is_leaving(pod) or pod["status"]["phase"] in BEFORE_RUNNING):
        _ask_budgets(model, pod)
    model.delete(PODS, namespace, name, replace(options, dry_run=True))  # checks the preconditions
    if dry_run:
        return
    model.modify(PODS, pod, _disrupted)
    model.delete(PODS, namespace, name, replace(options, resource_version=None))


def _ask_budgets(model: KubeModel, pod: Body) -> None:
    for budget in budgets.covering(model, pod):
        state = budgets.state(model, budget)
        if state.allowed <= 0:
            raise disruption_budget(budget["metadata"]["name"], state.desired, state.healthy)


def _disrupted(pod: Body) -> Body:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = pod["status"]
    conditions = with_condition(status.get("conditions"), condition)
    return {**pod, "status": {**status, "conditions": conditions}}
