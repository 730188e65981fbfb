"""Custom resources of the Prometheus and VictoriaMetrics operators, as far as the chart goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.rigs.kube import KubeRig

_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_FREE: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SELECTOR: Final = _object(matchLabels=_TEXTS)
_ENDPOINT: Final = dict.fromkeys(("port", "path", "interval", "scrapeTimeout"), _TEXT)
_RELABELED: Final = _list(
    _object(**_ENDPOINT, relabelings=_list(_FREE), metricRelabelings=_list(_FREE))
)
_RULE: Final = _object(
    alert=_TEXT,
    record=_TEXT,
    expr={"x-kubernetes-int-or-string": True},
    labels=_TEXTS,
    annotations=_TEXTS,
    keep_firing_for=_TEXT,
    **{"for": _TEXT},
)
# Fields as in the operators' own API references.
_KINDS: Final = {
    "PodMonitor": (
        "monitoring.coreos.com/v1",
        _object(selector=_SELECTOR, podMetricsEndpoints=_RELABELED),
    ),
    "ServiceMonitor": (
        "monitoring.coreos.com/v1",
        _object(selector=_SELECTOR, endpoints=_RELABELED),
    ),
    "PrometheusRule": (
        "monitoring.coreos.com/v1",
        _object(groups=_list(_object(name=_TEXT, interval=_TEXT, rules=_list(_RULE)))),
    ),
    "VMPodScrape": (
        "operator.victoriametrics.com/v1beta1",
        _object(selector=_SELECTOR, podMetricsEndpoints=_list(_object(**_ENDPOINT))),
    ),
}


@contextmanager
def definitions(rig: KubeRig) -> Iterator[None]:
    """They are there inside."""
    made = [_definition(kind, *it) for kind, it in _KINDS.items()]
    try:
        for body in made:
            answer = rig.ask("POST", _PATH, body)
            assert answer.status == 201, answer
        yield
    finally:
        for body in made:
            rig.ask("DELETE", f"{_PATH}/{body['metadata']['name']}")


def _definition(kind: str, group_version: str, spec: dict[str, Any]) -> dict[str, Any]:
    group, version = group_version.split("/")
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object(spec=spec)},
                }
            ],
        },
    }
