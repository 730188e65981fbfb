"""The scheduler's ServiceAccount with the rights of the plain manifests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from tests.support.cluster import Cluster
from tests.support.kube import Kube, Object

_MANIFEST: Final = Path(__file__).parents[2] / "deploy/manifests/rbac.yaml"
_NAME: Final = "slurm-pod-scheduler"


async def grant(kube: Kube, *, without: str = "") -> None:
    """Apply rbac.yaml, without the rule about the resource `without`, such as "pods/binding"."""
    for body in _objects():
        rules = body.get("rules")
        if rules:
            body["rules"] = [it for it in rules if without not in it["resources"]]
        await kube.apply(body)


async def revoke(kube: Kube) -> None:
    """Remove the rights, so that no other test passes only because of them."""
    await kube.delete("clusterrolebindings", _NAME)


async def own_kubeconfig(cluster: Cluster, kube: Kube, *, folder: Path) -> Path:
    """Write a kubeconfig for the ServiceAccount; returns its path."""
    from tests.rigs.kube_files import kubeconfig

    token = await kube.service_account_token(_NAME, namespace=_NAME)
    config = folder / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(cluster.kube_ca, cluster.kube_url, token)))
    return config


def _objects() -> Iterator[Object]:
    yield from yaml.safe_load_all(_MANIFEST.read_text())
