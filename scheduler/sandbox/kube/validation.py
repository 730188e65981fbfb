"""Validates objects by the rules of their kinds that people and schedulers run into.

Each check yields pairs of field and complaint, in the API server's words. Unknown fields pass. A
body that a real server cannot even decode raises ApiError 400 at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from scheduler.sandbox.kube import quantities, resizing, selectors
from scheduler.sandbox.kube.errors import bad_request, invalid
from scheduler.sandbox.kube.resources import Resource

Body = dict[str, Any]
Complaint = tuple[str, str]

IMMUTABLE = "field is immutable"

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
    "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_LONGEST_NAME = 253
_LONGEST_LABEL = 63
_LONGEST_ANNOTATIONS = 256 * 1024


def check_new(resource: Resource, body: Body) -> None:
    """Raises ApiError 422 with all complaints about an object that is to be created."""
    complaints = [*_metadata(resource, body["metadata"]), *_specifics(resource, body)]
    _raise(resource, body, complaints)


def check_update(resource: Resource, old: Body, new: Body, *, resize: bool = False) -> None:
    """Raises ApiError 422 with all complaints about a changed object, or with `resize` a pod."""
    complaints = [*_metadata(resource, new["metadata"]), *_identity(old, new)]
    if resize:
        complaints += [*_specifics(resource, new), *resizing.complaints(old["spec"], new["spec"])]
    elif new.get("spec") != old.get("spec"):
        complaints += [*_specifics(resource, new), *_immutable_spec(resource, old, new)]
    _raise(resource, new, complaints)


def _raise(resource: Resource, body: Body, complaints: list[Complaint]) -> None:
    if complaints:
        name = str(body["metadata"].get("name", ""))
        raise invalid(resource.kind, name, complaints, group=resource.group)


def _identity(old: Body, new: Body) -> Iterator[Complaint]:
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        wanted, present = new["metadata"].get(field), old["metadata"].get(field)
        if wanted != present:
            yield f"metadata.{field}", f'Invalid value: "{wanted}": {IMMUTABLE}'


def _metadata(resource: Resource, metadata: Body) -> Iterator[Complaint]:
    yield from _name(resource, metadata.get("name"))
    labels = metadata.get("labels") or {}
    for value in labels.values():
        if not isinstance(value, str) or not _valid_label(value):
            yield (
                "metadata.labels",
                f"Invalid value: {value!r}: a valid label must be an empty "
                "string or consist of alphanumeric characters, '-', '_' or '.'",
            )
    annotations = metadata.get("annotations") or {}
    if not all(isinstance(value, str) for value in annotations.values()):
        yield "metadata.annotations", "Invalid value: values must be strings"
    elif sum(len(k) + len(v) for k, v in annotations.items()) > _LONGEST_ANNOTATIONS:
        yield "metadata.annotations", "Too long: may not be more than 262144 bytes"


def _valid_label(value: str) -> bool:
    return len(value) <= _LONGEST_LABEL and _LABEL_VALUE.match(value) is not None


def _name(resource: Resource, name: Any) -> Iterator[Complaint]:
    if not name:
        yield "metadata.name", "Required value: name or generateName is required"
    elif resource.kind == "Namespace":
        if len(name) > _LONGEST_LABEL or not _LABEL.match(name):
            yield "metadata.name", f'Invalid value: "{name}": {_LABEL_RULE}'
    elif len(name) > _LONGEST_NAME or not _SUBDOMAIN.match(name):
        yield "metadata.name", f'Invalid value: "{name}": {_SUBDOMAIN_RULE}'


def _specifics(resource: Resource, body: Body) -> Iterator[Complaint]:
    check = _BY_KIND.get(resource.kind)
    if check is not None:
        yield from check(body)


def _pod(body: Body) -> Iterator[Complaint]:
    yield from pod_spec(body.get("spec") or {}, "spec")


def pod_spec(spec: Body, at: str) -> Iterator[Complaint]:
    """The complaints about a pod's spec; `at` is its path, for the names of fields."""
    containers = spec.get("containers")
    if not containers:
        yield f"{at}.containers", "Required value"
    for field in ("containers", "initContainers"):
        yield from _containers(spec.get(field) or (), f"{at}.{field}")
    policy = spec.get("restartPolicy")
    if policy not in {"Always", "OnFailure", "Never"}:
        supported = '"Always", "OnFailure", "Never"'
        yield f"{at}.restartPolicy", f'Unsupported value: "{policy}": supported values: {supported}'
    grace = spec.get("terminationGracePeriodSeconds")
    if not isinstance(grace, int):
        here = f"{at}.terminationGracePeriodSeconds"
        raise bad_request(f"{here}: cannot unmarshal {grace!r} into a field of type int64")


def _containers(containers: Any, at: str) -> Iterator[Complaint]:
    names: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{at}[{index}]"
        name = container.get("name")
        if not name:
            yield f"{here}.name", "Required value"
        elif len(name) > _LONGEST_LABEL or not _LABEL.match(name):
            yield f"{here}.name", f'Invalid value: "{name}": {_LABEL_RULE}'
        elif name in names:
            yield f"{here}.name", f'Duplicate value: "{name}"'
        names.add(name or "")
        if not container.get("image"):
            yield f"{here}.image", "Required value"
        yield from _resources(container.get("resources") or {}, f"{here}.resources")


def _resources(resources: Body, at: str) -> Iterator[Complaint]:
    limits = resources.get("limits") or {}
    for kind in ("limits", "requests"):
        for name, value in (resources.get(kind) or {}).items():
            here = f"{at}.{kind}[{name}]"
            amount = quantities.parse(value)
            if amount is None:
                raise bad_request(f"{here}: {value!r}: {_QUANTITY_RULE}")
            if amount < 0:
                yield here, f'Invalid value: "{value}": must be greater than or equal to 0'
            elif kind == "requests":
                yield from _request(name, value, limits, at=here)


def _request(name: str, value: str, limits: Body, *, at: str) -> Iterator[Complaint]:
    extended = "/" in name
    if name not in limits:
        if extended:
            yield (
                at.replace("requests", "limits"),
                ("Required value: Limit must be set for non overcommitable resources"),
            )
        return
    wanted, limit = quantities.parse(value), quantities.parse(limits[name])
    if wanted is None or limit is None:
        return
    if extended and wanted != limit:
        yield at, f'Invalid value: "{value}": must be equal to {name} limit of {limits[name]}'
    elif wanted > limit:
        yield (
            at,
            (
                f'Invalid value: "{value}": must be less than or equal to {name} limit of '
                f"{limits[name]}"
            ),
        )


def _workload(body: Body) -> Iterator[Complaint]:
    spec = body.get("spec") or {}
    selector = spec.get("selector")
    template = spec.get("template") or {}
    if not selector:
        yield "spec.selector", "Required value"
    else:
        labels = (template.get("metadata") or {}).get("labels") or {}
        if not selectors.matches(selectors.from_object(selector), {"metadata": {"labels": labels}}):
            text = f"Invalid value: {labels!r}: `selector` does not match template `labels`"
            yield "spec.template.metadata.labels", text
    yield from _count(spec, "replicas")
    yield from pod_spec(template.get("spec") or {}, "spec.template.spec")


def _job(body: Body) -> Iterator[Complaint]:
    spec = body.get("spec") or {}
    template_spec = (spec.get("template") or {}).get("spec") or {}
    for field in ("parallelism", "completions", "backoffLimit"):
        yield from _count(spec, field)
    policy = template_spec.get("restartPolicy")
    if policy == "Always":
        supported = '"OnFailure", "Never"'
        yield (
            "spec.template.spec.restartPolicy",
            f'Unsupported value: "{policy}": supported values: {supported}',
        )
    yield from pod_spec(template_spec, "spec.template.spec")


def _count(spec: Body, field: str) -> Iterator[Complaint]:
    value = spec.get(field)
    if value is not None and (not isinstance(value, int) or value < 0):
        yield f"spec.{field}", f"Invalid value: {value!r}: must be greater than or equal to 0"


_MAY_CHANGE = frozenset(
    {"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"}
)


def _immutable_spec(resource: Resource, old: Body, new: Body) -> Iterator[Complaint]:
    match resource.kind:
        case "Pod":
            yield from _immutable_pod(old["spec"], new["spec"])
        case "Deployment" | "ReplicaSet":
            if old["spec"].get("selector") != new["spec"].get("selector"):
                yield "spec.selector", f"Invalid value: {IMMUTABLE}"
        case "Job":
            for field in ("selector", "completionMode", "template"):
                if old["spec"].get(field) != new["spec"].get(field):
                    yield f"spec.{field}", f"Invalid value: {IMMUTABLE}"
        case _:
            return


def _immutable_pod(old: Body, new: Body) -> Iterator[Complaint]:
    may_change = set(_MAY_CHANGE)
    if old.get("schedulingGates"):
        may_change |= {"nodeSelector", "affinity"}
    if _frozen(old, may_change) != _frozen(new, may_change):
        yield (
            "spec",
            (
                "Forbidden: pod updates may not change fields other than "
                "`spec.containers[*].image`,`spec.initContainers[*].image`,"
                "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
                "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
                "was previously negative)"
            ),
        )
    gates = [gate["name"] for gate in old.get("schedulingGates") or ()]
    for gate in new.get("schedulingGates") or ():
        if gate["name"] not in gates:
            yield (
                "spec.schedulingGates",
                "Forbidden: only deletion is allowed, but found new "
                f"scheduling gate '{gate['name']}'",
            )


def _frozen(spec: Body, may_change: set[str]) -> Body:
    kept = {key: value for key, value in spec.items() if key not in may_change}
    for field in ("containers", "initContainers"):
        containers = kept.get(field) or ()
        kept[field] = [{k: v for k, v in each.items() if k != "image"} for each in containers]
    return kept


_BY_KIND: dict[str, Callable[[Body], Iterator[Complaint]]] = {
    "Pod": _pod,
    "Deployment": _workload,
    "ReplicaSet": _workload,
    "Job": _job,
}
