"""Tables: the columns that kubectl prints and the server computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from scheduler.sandbox.kube.meta import condition_of, parse_time
from scheduler.sandbox.kube.resources import Body, Resource

Cells = list[Any]

WIDE = 1  # kubectl shows columns of a priority above 0 only with -o wide


def table(resource: Resource, bodies: Iterable[Body], *, metadata: Body, include: str) -> Body:
    """The objects as a meta.k8s.io/v1 Table; `include` is "None", "Metadata" or "Object"."""
    columns, cells = _BY_KIND.get(resource.kind, _ANYTHING)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [
            {"name": name, "type": kind, "format": "", "description": name, "priority": priority}
            for name, kind, priority in columns
        ],
        "rows": [{"cells": cells(body), "object": _object(body, include)} for body in bodies],
    }


def partial(body: Body) -> Body:
    """The object reduced to its metadata, as a PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": body["metadata"],
    }


def age(timestamp: str | None) -> str:
    """The time since the timestamp, in kubectl's format."""
    if not timestamp:
        return "<unknown>"
    seconds = int((datetime.now(UTC) - parse_time(timestamp)).total_seconds())
    return duration(max(0, seconds))


def duration(seconds: int) -> str:
    """A number of seconds in kubectl's format, with one or two units, for example "5m20s"."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if days < 2:
        return f"{hours}h"
    return _two(days, "d", hours % 24, "h") if days < 8 else f"{days}d"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _object(body: Body, include: str) -> Body | None:
    if include == "None":
        return None
    return body if include == "Object" else partial(body)


def _name(body: Body) -> str:
    return str(body["metadata"]["name"])


def _created(body: Body) -> str:
    return age(body["metadata"].get("creationTimestamp"))


def _status(body: Body) -> Body:
    return dict(body.get("status") or {})


def _pod(body: Body) -> Cells:
    spec, status = body["spec"], _status(body)
    statuses = status.get("containerStatuses") or []
    ready = sum(bool(each.get("ready")) for each in statuses)
    restarts = sum(each.get("restartCount", 0) for each in statuses)
    gates = spec.get("readinessGates")
    return [
        _name(body),
        f"{ready}/{len(spec['containers'])}",
        pod_reason(body),
        str(restarts),
        _created(body),
        status.get("podIP") or "<none>",
        spec.get("nodeName") or "<none>",
        status.get("nominatedNodeName") or "<none>",
        f"0/{len(gates)}" if gates else "<none>",
    ]


def pod_reason(body: Body) -> str:
    """The text of the STATUS column: the phase, or a more precise reason."""
    status = _status(body)
    reason = str(status.get("reason") or status.get("phase") or "Unknown")
    scheduled = condition_of(body, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    for each in status.get("containerStatuses") or ():
        state = each.get("state") or {}
        waiting, ended = state.get("waiting"), state.get("terminated")
        if waiting and waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode', 0)}"
    if body["metadata"].get("deletionTimestamp"):
        finished = status.get("phase") in {"Succeeded", "Failed"}
        reason = reason if finished else "Terminating"
    return reason


def _node(body: Body) -> Cells:
    condition = condition_of(body, "Ready")
    state = "Unknown" if condition is None else _READY.get(condition["status"], "NotReady")
    if (body.get("spec") or {}).get("unschedulable"):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    labels = body["metadata"].get("labels") or {}
    roles = sorted(label.removeprefix(prefix) for label in labels if label.startswith(prefix))
    info = _status(body).get("nodeInfo") or {}
    return [
        _name(body),
        state,
        ",".join(roles) or "<none>",
        _created(body),
        info.get("kubeletVersion", ""),
        _address(body, "InternalIP"),
        _address(body, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


_READY = {"True": "Ready", "False": "NotReady", "Unknown": "NotReady"}


def _address(body: Body, kind: str) -> str:
    addresses = _status(body).get("addresses") or ()
    return next((str(each["address"]) for each in addresses if each["type"] == kind), "<none>")


def _event(body: Body) -> Cells:
    about = body.get("involvedObject") or body.get("regarding") or {}
    last = body.get("lastTimestamp") or body.get("eventTime") or body.get("firstTimestamp")
    source = body.get("source") or {}
    return [
        age(last or body["metadata"].get("creationTimestamp")),
        body.get("type", ""),
        body.get("reason", ""),
        f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        about.get("fieldPath", ""),
        source.get("component") or body.get("reportingComponent", ""),
        str(body.get("message", body.get("note", ""))).strip(),
        age(body.get("firstTimestamp") or body.get("eventTime")),
        str(body.get("count") or 1),
        _name(body),
    ]


def _deployment(body: Body) -> Cells:
    spec, status = body["spec"], _status(body)
    containers = spec["template"]["spec"].get("containers") or ()
    return [
        _name(body),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 1)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        _created(body),
        ",".join(each["name"] for each in containers),
        ",".join(each.get("image", "") for each in containers),
        _selector(spec.get("selector")),
    ]


def _replica_set(body: Body) -> Cells:
    spec, status = body["spec"], _status(body)
    return [
        _name(body),
        spec.get("replicas", 1),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        _created(body),
    ]


def _selector(selector: Body | None) -> str:
    labels = (selector or {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in labels.items()) or "<none>"


def _job(body: Body) -> Cells:
    spec, status = body["spec"], _status(body)
    wanted = spec.get("completions")
    total = str(wanted) if wanted is not None else f"1 of {spec.get('parallelism', 1)}"
    state = "Running"
    for condition in status.get("conditions") or ():
        if condition["status"] == "True" and condition["type"] in {"Complete", "Failed"}:
            state = condition["type"]
    if spec.get("suspend"):
        state = "Suspended"
    took = ""
    if begun := status.get("startTime"):
        end = status.get("completionTime")
        finished = parse_time(end) if end else datetime.now(UTC)
        took = duration(int((finished - parse_time(begun)).total_seconds()))
    return [_name(body), state, f"{status.get('succeeded', 0)}/{total}", took, _created(body)]


def _namespace(body: Body) -> Cells:
    return [_name(body), _status(body).get("phase", ""), _created(body)]


def _config_map(body: Body) -> Cells:
    return [_name(body), str(len(body.get("data") or {})), _created(body)]


def _secret(body: Body) -> Cells:
    return [_name(body), body.get("type", ""), str(len(body.get("data") or {})), _created(body)]


def _lease(body: Body) -> Cells:
    return [_name(body), (body.get("spec") or {}).get("holderIdentity", ""), _created(body)]


def _budget(body: Body) -> Cells:
    spec = body["spec"]
    return [
        _name(body),
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        _status(body).get("disruptionsAllowed", 0),
        _created(body),
    ]


def _service(body: Body) -> Cells:
    spec = body["spec"]
    ports = ",".join(f"{p['port']}/{p.get('protocol', 'TCP')}" for p in spec.get("ports") or ())
    cluster_ip = spec.get("clusterIP", "<none>")
    return [_name(body), spec["type"], cluster_ip, "<none>", ports or "<none>", _created(body)]


def _plain(body: Body) -> Cells:
    return [_name(body), _created(body)]


def _columns(text: str) -> tuple[tuple[str, str, int], ...]:
    """Columns from words such as `Name` or `Replicas:integer`; `Node+` is a column for -o wide."""
    return tuple(_column(word.replace("_", " ")) for word in text.split())


def _column(word: str) -> tuple[str, str, int]:
    name, _, kind = word.rstrip("+").partition(":")
    return name, kind or "string", WIDE if word.endswith("+") else 0


_ANYTHING: tuple[tuple[tuple[str, str, int], ...], Callable[[Body], Cells]] = (
    _columns("Name Age"),
    _plain,
)
_BY_KIND = {
    "Pod": (
        _columns("Name Ready Status Restarts Age IP+ Node+ Nominated_Node+ Readiness_Gates+"),
        _pod,
    ),
    "Node": (
        _columns(
            "Name Status Roles Age Version Internal-IP+ External-IP+ OS-Image+ Kernel-Version+ "
            "Container-Runtime+"
        ),
        _node,
    ),
    "Event": (
        _columns(
            "Last_Seen Type Reason Object Subobject+ Source+ Message First_Seen+ Count+ Name+"
        ),
        _event,
    ),
    "Deployment": (
        _columns(
            "Name Ready Up-to-date:integer Available:integer Age Containers+ Images+ Selector+"
        ),
        _deployment,
    ),
    "ReplicaSet": (
        _columns("Name Desired:integer Current:integer Ready:integer Age"),
        _replica_set,
    ),
    "Job": (_columns("Name Status Completions Duration Age"), _job),
    "Namespace": (_columns("Name Status Age"), _namespace),
    "ConfigMap": (_columns("Name Data Age"), _config_map),
    "Secret": (_columns("Name Type Data Age"), _secret),
    "Lease": (_columns("Name Holder Age"), _lease),
    "PodDisruptionBudget": (
        _columns("Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age"),
        _budget,
    ),
    "Service": (_columns("Name Type Cluster-IP External-IP Port(s) Age"), _service),
}
