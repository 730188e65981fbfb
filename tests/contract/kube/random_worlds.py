"""Makes random Nodes, volumes and pods, with the fields that kube-scheduler's filters read."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.contract.kube.oracle import NAME

Body = dict[str, Any]

NAMESPACES: Final = ("oracle-a", "oracle-b")
_APPS: Final = ("web", "db", "cache")
_ZONE: Final = "topology.kubernetes.io/zone"
_HOST: Final = "kubernetes.io/hostname"
FPGA: Final = "example.com/fpga"
FEATURES: Final = ("requests", "ports", "affinity", "anti-affinity", "spread", "volumes")


def node(rng: Random, name: str) -> Body:
    """A Ready Node."""
    labels = {_HOST: name}
    if rng.random() < 0.85:
        labels[_ZONE] = rng.choice("abc")
    if rng.random() < 0.6:
        labels["rack"] = rng.choice(("r1", "r2"))
    offered = {
        "cpu": rng.choice(("2", "4", "3500m")),
        "memory": rng.choice(("4Gi", "8Gi", "6000M")),
        "pods": str(rng.randint(3, 8)),
    }
    if rng.random() < 0.5:
        offered[FPGA] = str(rng.randint(0, 3))
    taints = [{"key": "dedicated", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def resident(rng: Random, name: str, node: str) -> Body:
    """A pod that is on a Node."""
    features = {it for it in ("requests", "ports", "anti-affinity") if rng.random() < 0.35}
    body = _pod(rng, name, features | {"requests"})
    body["spec"]["nodeName"] = node
    body["spec"]["schedulerName"] = "somebody-else"
    # Such a pod stays when it is deleted; some filters count it then and others do not.
    if rng.random() < 0.4:
        body["metadata"]["finalizers"] = ["example.com/stays"]
    return body


def probe(rng: Random, name: str, feature: str, claims: list[str]) -> Body:
    """A pod to ask about. It has this feature, and perhaps others."""
    features = {feature} | {it for it in FEATURES if rng.random() < 0.15}
    body = _pod(rng, name, features)
    body["spec"]["schedulerName"] = NAME
    if rng.random() < 0.5:
        body["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if rng.random() < 0.2:
        body["spec"]["nodeSelector"] = {"rack": rng.choice(("r1", "r2"))}
    if "volumes" in features:
        claim = {"claimName": rng.choice([*claims, "missing"])}
        body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": claim}]
    return body


def volume(rng: Random, name: str, claim: str) -> Body:
    """A volume that is bound to that claim."""
    body: Body = {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": "/data"},
            "claimRef": {"namespace": NAMESPACES[0], "name": claim},
        },
    }
    if rng.random() < 0.8:
        zones = {"key": _ZONE, "operator": rng.choice(("In", "NotIn")), "values": _some(rng, "abc")}
        terms = [{"matchExpressions": [zones]}]
        if rng.random() < 0.3:
            terms.append({"matchExpressions": [{"key": "rack", "operator": "Exists"}]})
        body["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return body


def claim(rng: Random, name: str, volume: str) -> Body:
    """A claim, bound to that volume."""
    return {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": volume,
        },
    }


def _pod(rng: Random, name: str, features: set[str]) -> Body:
    labels = {"app": rng.choice(_APPS)}
    if rng.random() < 0.5:
        labels["tier"] = rng.choice(("x", "y"))
    spec: Body = {
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [_container(rng, "main", features)],
    }
    if "requests" in features and rng.random() < 0.4:
        sidecar = {"restartPolicy": "Always"} if rng.random() < 0.5 else {}
        spec["initContainers"] = [
            _container(rng, "first", {"requests"}) | sidecar,
            _container(rng, "second", {"requests"}),
        ]
    if "requests" in features and rng.random() < 0.15:
        spec["resources"] = {"requests": {"cpu": "3"}}
    affinity: Body = {}
    if "affinity" in features:
        affinity["podAffinity"] = _required(rng)
    if "anti-affinity" in features:
        affinity["podAntiAffinity"] = _required(rng)
    if affinity:
        spec["affinity"] = affinity
    if "spread" in features:
        spec["topologySpreadConstraints"] = _spread(rng)
    metadata = {"name": name, "namespace": rng.choice(NAMESPACES), "labels": labels}
    if "volumes" in features:
        metadata["namespace"] = NAMESPACES[0]
    return {"metadata": metadata, "spec": spec}


def _container(rng: Random, name: str, features: set[str]) -> Body:
    requests: Body = {}
    if "requests" in features:
        requests["cpu"] = rng.choice(("100m", "500m", "1", "1500m"))
        if rng.random() < 0.7:
            requests["memory"] = rng.choice(("512Mi", "1Gi", "1500M", "3Gi"))
        if rng.random() < 0.3:
            requests[FPGA] = "1"
    limits = {FPGA: requests[FPGA]} if FPGA in requests else {}
    body: Body = {
        "name": name,
        "image": "registry.invalid/anything:1",
        "resources": {"requests": requests, "limits": limits},
    }
    if "ports" in features:
        port: Body = {"containerPort": 80, "hostPort": rng.choice((8080, 8081))}
        port["protocol"] = rng.choice(("TCP", "TCP", "UDP"))
        if rng.random() < 0.5:
            port["hostIP"] = rng.choice(("127.0.0.1", "127.0.0.2", "0.0.0.0"))
        body["ports"] = [port]
    return body


def _required(rng: Random) -> Body:
    count = 2 if rng.random() < 0.25 else 1
    return {"requiredDuringSchedulingIgnoredDuringExecution": [_term(rng) for _ in range(count)]}


def _term(rng: Random) -> Body:
    term: Body = {"topologyKey": rng.choice((_ZONE, _ZONE, _HOST, "rack"))}
    if rng.random() < 0.95:
        term["labelSelector"] = _selector(rng)
    kind = rng.random()
    if kind < 0.2:
        term["namespaces"] = _some(rng, NAMESPACES)
    elif kind < 0.35:
        term["namespaceSelector"] = {}
    elif kind < 0.45:
        name = {"kubernetes.io/metadata.name": rng.choice(NAMESPACES)}
        term["namespaceSelector"] = {"matchLabels": name}
    # The server refuses a key that is in the selector already.
    if "matchLabels" in term.get("labelSelector", {}) and rng.random() < 0.2:
        term["matchLabelKeys"] = ["tier"]
    return term


def _selector(rng: Random) -> Body:
    if rng.random() < 0.07:
        return {}
    if rng.random() < 0.6:
        return {"matchLabels": {"app": rng.choice(_APPS)}}
    operator = rng.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": _some(rng, ("x", "y"))} if operator in {"In", "NotIn"} else {}
    return {"matchExpressions": [{"key": "tier", "operator": operator} | values]}


def _spread(rng: Random) -> list[Body]:
    keys = rng.sample((_ZONE, _HOST, "rack"), 2 if rng.random() < 0.3 else 1)
    return [_constraint(rng, key) for key in keys]


def _constraint(rng: Random, key: str) -> Body:
    body: Body = {
        "topologyKey": key,
        "maxSkew": rng.choice((1, 1, 2)),
        "whenUnsatisfiable": "DoNotSchedule",
    }
    if rng.random() < 0.95:
        body["labelSelector"] = _selector(rng)
    if rng.random() < 0.3:
        body["minDomains"] = rng.randint(1, 4)
    if rng.random() < 0.3:
        body["nodeAffinityPolicy"] = rng.choice(("Honor", "Ignore"))
    if rng.random() < 0.3:
        body["nodeTaintsPolicy"] = rng.choice(("Honor", "Ignore"))
    if "labelSelector" in body and rng.random() < 0.2:
        body["matchLabelKeys"] = ["app" if "matchExpressions" in body["labelSelector"] else "tier"]
    return body


def _some(rng: Random, among: Any) -> list[str]:
    found = list(among)
    return sorted(rng.sample(found, rng.randint(1, len(found))))
