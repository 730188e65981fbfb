"""Installs the Helm chart on the rig's one real Node, as docs/install.md describes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from tests.rigs import slurm_conf
from tests.rigs.helm import Helm
from tests.rigs.kube import KubeRig
from tests.rigs.node_real import RealNode
from tests.rigs.slurm import SlurmRig
from tests.support.cable import Cable
from tests.support.chart import CHART
from tests.support.ports import free_ports

NAME: Final = "slurm-pod-scheduler"
_SECRET: Final = "slurm-token"
_API_NAME: Final = "kubernetes.default.svc"
_READY_SECONDS: Final = 120.0
_POLL_SECONDS: Final = 0.2


def on_one_node(kube: KubeRig, image: str) -> dict[str, Any]:
    """Values below `scheduler` that make up for what such a Node lacks: a network of pods that
    reaches the servers, and a registry.
    """
    health, metrics, hooks, page = free_ports(4)
    api = urlsplit(kube.url)
    return _without_registry(image, api=f"{api.hostname}:{api.port}") | {
        "hostNetwork": True,
        "ports": {"health": health, "metrics": metrics, "hooks": hooks, "page": page},
    }


@contextmanager
def in_pod_network(
    kube: KubeRig, slurm_url: str, *, image: str, node: RealNode
) -> Iterator[dict[str, Any]]:
    """As `on_one_node`, but for several replicas: each pod has a network of its own, with relays
    from it to the servers.
    """
    ports = (urlsplit(url).port or 0 for url in (kube.url, slurm_url))
    with ExitStack() as stack:
        api, slurm = (stack.enter_context(Cable(it, at=node.gateway)) for it in ports)
        # A name that the certificate of the API server holds.
        aliases = [{"ip": node.gateway, "hostnames": [_API_NAME]}]
        slurm_settings = {"apiBase": f"http://{node.gateway}:{slurm.port}"}
        yield _without_registry(image, api=f"{_API_NAME}:{api.port}") | {
            "hostAliases": aliases,
            "config": {"slurm": slurm_settings},
        }


def _without_registry(image: str, *, api: str) -> dict[str, Any]:
    repository, _, tag = image.rpartition(":")
    host, _, port = api.rpartition(":")
    # There is no kube-proxy, so the address of the Service does not work.
    places = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "extraEnv": [{"name": key, "value": value} for key, value in places.items()],
        "startupProbe": {"periodSeconds": 1},
        "readinessProbe": {"periodSeconds": 1},
    }


def values(kube: KubeRig, slurm: SlurmRig, *, image: str) -> dict[str, Any]:
    """The values.yaml of that page, with what the one Node needs."""
    settings = {
        "apiBase": slurm.url,
        "killWait": "30s",
        "token": {"existingSecret": _SECRET},
    }
    test = {"sandbox/run-seconds": "0.1"}  # for a simulated Node
    if slurm.shape.real:
        test = {"sunk.coreweave.com/partition": slurm_conf.REAL_PARTITION}
    more = {"config": {"slurm": settings}, "test": {"annotations": test}}
    return {"scheduler": on_one_node(kube, image) | more}


def install(kube: KubeRig, helm: Helm, *, given: Mapping[str, Any], token: str) -> None:
    """Make the namespace, Secret and release; wait until it is ready. Raises RuntimeError."""
    kube.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAME}})
    secret = {"metadata": {"name": _SECRET}, "stringData": {"auth-token": token}}
    kube.ask("POST", f"/api/v1/namespaces/{NAME}/secrets", secret)
    helm("install", NAME, CHART, "--namespace", NAME, "--values", "-", stdin=json.dumps(given))
    until = time.monotonic() + _READY_SECONDS
    while not _ready(kube):
        if time.monotonic() > until:
            raise RuntimeError(f"the scheduler is not ready\n{_pods(kube)}")
        time.sleep(_POLL_SECONDS)


def _ready(kube: KubeRig) -> bool:
    found = kube.ask("GET", f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}").body
    return bool(found["status"].get("readyReplicas") == 1)


def _pods(kube: KubeRig) -> str:
    items = kube.ask("GET", f"/api/v1/namespaces/{NAME}/pods").body["items"]
    return json.dumps([it["status"] for it in items], indent=1)
