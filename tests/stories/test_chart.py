"""What the Helm chart installs schedules pods, with the rights that it gives and no others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import aiohttp
import pytest

from tests.support import pods
from tests.support.chart import Release, command_line
from tests.support.cluster import Cluster
from tests.support.kube import Kube, KubeAnswerError, namespace_for
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.helm import Helm
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

_NAME: Final = "slurm-pod-scheduler"
# The scheduler asks this once to learn whether it is allowed.
_UID: Final = "403 get /api/v1/namespaces/kube-system"
_NODES: Final = "/api/v1/nodes"


_COMMENT: Final = "a policy of the chart's"
# Values from which the chart makes ConfigMaps and Secrets.
_FILES: Final = {
    "policy": {"rules": [{"name": "all", "forced": {"comment": _COMMENT}}]},
    "nodeMap": {"nodes": {"no-such-node": "no-such-node"}},
    "hooks": {"enabled": True, "token": "0123456789abcdef"},
}


@dataclass(frozen=True)
class Scope:
    """Values for `scope`. HOME stands for the chart's namespace, and SERVED for the story's."""

    values: dict[str, Any]
    more: dict[str, Any] = field(default_factory=dict)
    at_home: bool = False
    refused: frozenset[str] = frozenset({_UID})
    reads_nodes: bool = False


SCOPES: Final = {
    "cluster": Scope({"type": "cluster"}, refused=frozenset(), reads_nodes=True),
    "namespaces": Scope({"type": "namespace", "namespaces": "HOME, SERVED"}, more=_FILES),
    "own-namespace": Scope({"type": "namespace"}, at_home=True),
    "own-namespace-and-nodes": Scope(
        {"type": "namespace", "nodeAccess": True}, at_home=True, reads_nodes=True
    ),
}
_PLAYED: Final = [("live_26", name) for name in SCOPES] + [("live_24", "cluster")]


@pytest.fixture(params=_PLAYED, ids=lambda it: f"{it[0].replace('_', '-')}-{it[1]}")
def played(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Cluster and scope. Rights do not depend on Slurm's release: the older one gets one story."""
    pair: tuple[str, str] = request.param
    return pair


@pytest.fixture
def cluster(request: pytest.FixtureRequest, played: tuple[str, str]) -> Cluster:
    """A real cluster, because the model has no RBAC."""
    found: Cluster = request.getfixturevalue(played[0])
    return found


@pytest.fixture
def scope(played: tuple[str, str]) -> Scope:
    """The scope: which pods are served."""
    return SCOPES[played[1]]


@pytest.fixture
async def release(
    live_helm: Helm, cluster: Cluster, kube: Kube, namespace: str, scope: Scope
) -> AsyncIterator[Release]:
    """The installed chart. It has no replica, because no Node here has its image."""
    async with namespace_for(kube, "chart") as apart:
        found = Release(live_helm, kube, _NAME, namespace if scope.at_home else apart)
        await found.upgrade(values_for(cluster, scope, home=found.namespace, served=namespace))
        try:
            yield found
        finally:
            await found.uninstall()


@pytest.fixture
async def scheduler_flags(
    cluster: Cluster, kube: Kube, release: Release, tmp_path: Path
) -> tuple[str, ...]:
    """The Deployment's command line and the token of its ServiceAccount."""
    from tests.rigs.kube_files import kubeconfig

    token = await kube.service_account_token(_NAME, namespace=release.namespace)
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(cluster.kube_ca, cluster.kube_url, token)))
    words = await command_line(kube, release, folder=tmp_path / "mounts")
    return (*words, f"--kubeconfig={config}")


@pytest.fixture
def asked_before(live_kube: KubeRig, release: Release) -> int:
    """The size of the audit log before the scheduler starts."""
    return live_kube.audit_log.size()


async def test_pods_are_served_told_and_evicted_with_the_rights_of_the_chart(
    live_kube: KubeRig, asked_before: int, world: World, release: Release, scope: Scope
) -> None:
    assert f"TEST SUITE:     {_NAME}-test" in await release.test()

    if scope.values["type"] == "cluster":
        with pytest.raises(KubeAnswerError, match=r"requests\.cpu is not set"):
            await world.create("wrong", cpus=None)  # the admission policies come with the chart
    else:
        await world.create("wrong", cpus=None)
        await world.event("SchedulingFailed", name="wrong")
    await world.create()
    pod = await world.running()
    job = await world.placeholder(pod)
    assert (_COMMENT in str(job.raw["comment"])) == bool(scope.more)
    await world.event("Scheduled")
    await world.slurm.cancel(job.job_id)
    await world.gone()
    evicted = (await world.removed(pod)).pod
    assert pods.condition(evicted, "DisruptionTarget") is not None
    await world.create("next")
    await world.running("next")

    assert await _hooks(world.scheduler.hooks_url) == (401 if "hooks" in scope.more else None)
    namespaces = {"", "kube-system", world.namespace, release.namespace}
    asked = _asked(live_kube, asked_before, release, namespaces)
    assert {it for it in asked if it.startswith("403")} == scope.refused
    assert any(_NODES in it for it in asked) == scope.reads_nodes


def values_for(cluster: Cluster, scope: Scope, *, home: str, served: str) -> dict[str, Any]:
    """The chart's values for that cluster."""
    told = {"HOME": home, "SERVED": served}
    values = json.dumps(scope.values)
    for word, name in told.items():
        values = values.replace(word, name)
    slurm = {
        "apiBase": cluster.slurm_url,
        "token": {"value": cluster.slurm_token_file.read_text().strip()},
    }
    return {
        "scheduler": scope.more
        | {
            "scope": json.loads(values),
            "replicas": 0,
            "config": {"slurm": slurm},
            "test": {"annotations": {"sandbox/run-seconds": "0.1"}},
        }
    }


async def _hooks(url: str) -> int | None:
    """The hooks API's status for a request without its secret; None if nothing listens."""
    async with aiohttp.ClientSession() as session:
        try:
            async with session.post(f"{url}/v1/hints", json={"job_id": 1}) as answer:
                return answer.status
        except aiohttp.ClientConnectorError:
            return None


def _asked(rig: KubeRig, since: int, release: Release, namespaces: set[str]) -> set[str]:
    """Status, verb and path of each request of the ServiceAccount in these namespaces.

    Other namespaces may still have pods of an earlier test, and in a namespace that is being
    deleted nothing can be created.
    """
    account = f"system:serviceaccount:{release.namespace}:{_NAME}"
    entries = [json.loads(line) for line in rig.audit_log.lines(since)]
    mine = [
        it
        for it in entries
        if it["user"].get("username") == account
        and it.get("objectRef", {}).get("namespace", "") in namespaces
    ]
    return {
        f"{it['responseStatus']['code']} {it['verb']} {it['requestURI']}"
        for it in mine
        if "responseStatus" in it
    }
