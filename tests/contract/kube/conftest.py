"""Gives each contract test an API server: the sandbox's model and a real one in turn.

Tests work in a namespace of their own. Their pods name a scheduler that does not exist and are
bound to Nodes without a kubelet, so nobody but the test acts on them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scheduler.sandbox.kube import KubeCluster, NodeShape
from tests.contract.kube.client import KubeClient, Namespace
from tests.rigs.fixtures import SIMULATED

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

_TOKEN = "a-token-for-tests"
_NODES = ("n-0", "n-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePeer:
    """An API server with controllers; `token` is a cluster administrator's."""

    url: str
    token: str
    ca: Path | None
    nodes: tuple[str, ...]


@pytest.fixture(
    params=[
        pytest.param("model_peer", id="model"),
        pytest.param("live_peer", id="live", marks=pytest.mark.live),
    ]
)
def kube_peer(request: pytest.FixtureRequest) -> KubePeer:
    """The model, or a real kube-apiserver with kube-controller-manager."""
    found: KubePeer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def live_peer(live_kube: KubeRig) -> KubePeer:
    """The rig's API server."""
    return KubePeer(url=live_kube.url, token=live_kube.token, ca=live_kube.ca, nodes=SIMULATED)


@pytest.fixture
async def model_peer() -> AsyncIterator[KubePeer]:
    """The model, in this process."""
    shapes = [NodeShape(name=name, cpus=64, memory_mib=262_144) for name in _NODES]
    async with KubeCluster(token=_TOKEN, nodes=shapes) as cluster:
        yield KubePeer(url=cluster.server.url, token=_TOKEN, ca=None, nodes=_NODES)


@pytest.fixture
async def kube(kube_peer: KubePeer) -> AsyncIterator[KubeClient]:
    """A client with the administrator's token."""
    async with KubeClient(kube_peer.url, token=kube_peer.token, ca=kube_peer.ca) as client:
        yield client


@pytest.fixture
async def namespace(kube: KubeClient) -> AsyncIterator[Namespace]:
    """A namespace of the test's own."""
    async with namespace_of(kube) as made:
        yield made


@asynccontextmanager
async def namespace_of(kube: KubeClient) -> AsyncIterator[Namespace]:
    """A namespace, which is removed in the end."""
    answer = await kube.post("/api/v1/namespaces", {"metadata": {"generateName": "contract-"}})
    made = Namespace(kube, answer.body["metadata"]["name"])
    # pods are refused without this account, and a controller would make it only later
    account = {"metadata": {"name": "default"}}
    await kube.post(f"/api/v1/namespaces/{made.name}/serviceaccounts", account)
    try:
        yield made
    finally:
        await made.remove()
