"""What a process finds out about itself at the start."""

from __future__ import annotations

from collections import deque
from typing import cast

import pytest

from scheduler.config.settings import Settings
from scheduler.kube.api import KubeApi
from scheduler.kube.errors import Forbidden, KubeError, KubeUnreachable, Unauthorized
from scheduler.kube.identity import (
    ClusterIdError,
    admitted,
    cluster_id,
    may_read_nodes,
    may_read_pods,
)
from scheduler.kube.session import KubeConfigError

pytestmark = pytest.mark.looptime


class Api:
    """Namespaces that may be read, and what a probe of Nodes is answered with."""

    def __init__(self, *, uids: dict[str, str] | None = None, nodes: bool = True) -> None:
        self.uids = uids or {}
        self.nodes = nodes
        self.fail: deque[KubeError] = deque()
        self.asked: list[str] = []

    async def get_namespace_uid(self, name: str) -> str | None:
        self._ask(name)
        return self.uids.get(name)

    async def probe(self, path: str) -> None:
        self._ask(path)
        if not self.nodes:
            raise Forbidden(403)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.fail:
            raise self.fail.popleft()


def settings(**given: str) -> Settings:
    return Settings.model_validate({name.replace("_", "-"): it for name, it in given.items()})


def api(found: Api) -> KubeApi:
    return cast("KubeApi", found)


class StartingApi(Api):
    """Refuses everything until it has read its roles."""

    def __init__(self, *, refusals: int) -> None:
        super().__init__(uids={"kube-system": "uid-1", "mine": "uid-2"})
        self.refusals = refusals

    async def get_namespace_uid(self, name: str) -> str | None:
        return await super().get_namespace_uid(name) if self._permits() else None

    async def probe(self, path: str) -> None:
        if not self._permits():
            raise Forbidden(403)

    def _permits(self) -> bool:
        self.refusals -= 1
        return self.refusals < 0


@pytest.mark.parametrize("refusals", [1, 2])
async def test_api_server_that_reads_its_roles_changes_nobodys_identity(refusals):
    found = api(StartingApi(refusals=refusals))
    assert await cluster_id(settings(own_namespace="mine"), found) == "uid-1"


@pytest.mark.parametrize("refusals", [1, 2])
async def test_api_server_that_reads_its_roles_hides_no_nodes(refusals):
    assert await may_read_nodes(settings(), api(StartingApi(refusals=refusals)))


async def test_cluster_is_known_by_kube_system():
    found = Api(uids={"kube-system": "uid-1", "mine": "uid-2"})
    assert await cluster_id(settings(own_namespace="mine"), api(found)) == "uid-1"


async def test_cluster_is_known_by_our_own_namespace_where_kube_system_cannot_be_read():
    found = Api(uids={"mine": "uid-2"})
    assert await cluster_id(settings(own_namespace="mine"), api(found)) == "uid-2"


async def test_identity_that_is_set_is_not_asked_for():
    found = Api()
    assert await cluster_id(settings(cluster_id="here"), api(found)) == "here"
    assert found.asked == []


async def test_without_any_identity_the_setting_is_named():
    with pytest.raises(ClusterIdError, match=r"--cluster-id.*kube-system and mine cannot"):
        await cluster_id(settings(own_namespace="mine"), api(Api()))


async def test_server_that_does_not_answer_yet_is_waited_for():
    found = Api(uids={"kube-system": "uid-1"})
    found.fail.extend([KubeUnreachable("refused"), KubeUnreachable("refused")])
    assert await cluster_id(settings(), api(found)) == "uid-1"
    found.fail.append(KubeUnreachable("refused"))
    assert await may_read_nodes(settings(), api(found))


@pytest.mark.parametrize(
    ("access", "allowed", "reads", "asks"),
    [
        ("auto", True, True, True),
        ("auto", False, False, True),
        ("none", True, False, False),
        ("read", False, True, False),
    ],
)
async def test_access_to_nodes_and_to_pods_of_all_namespaces(access, allowed, reads, asks):
    nodes, pods = Api(nodes=allowed), Api(nodes=allowed)
    assert await may_read_nodes(settings(node_access=access), api(nodes)) is reads
    assert await may_read_pods(settings(pod_access=access), api(pods)) is reads
    assert set(nodes.asked) == ({"/api/v1/nodes"} if asks else set())
    assert set(pods.asked) == ({"/api/v1/pods"} if asks else set())


async def test_refused_credentials_are_the_end_outside_of_a_cluster(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    found = Api()
    found.fail.append(Unauthorized(401))
    with pytest.raises(KubeConfigError, match="https://api:6443 refuses the credentials"):
        await admitted(api(found), server="https://api:6443")


async def test_server_that_is_away_is_no_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    found = Api()
    found.fail.append(KubeUnreachable("away"))
    await admitted(api(found), server="https://api:6443")
    assert len(found.asked) == 1


async def test_refused_credentials_may_be_renewed_in_a_cluster(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = Api(uids={"kube-system": "uid-1"})
    found.fail.append(Unauthorized(401))
    await admitted(api(found), server="https://api:6443")
    assert await cluster_id(settings(), api(found)) == "uid-1"
