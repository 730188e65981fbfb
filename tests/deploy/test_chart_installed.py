"""The chart comes, changes and goes on a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.rigs.helm import Helm, ToolError
from tests.support.chart import Release, chart_of_version, policies_forgotten
from tests.support.kube import Kube, Object

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

_NAME: Final = "slurm-pod-scheduler"
_COLLECTED_SECONDS: Final = 60.0
_SLURM: Final = {"apiBase": "http://slurmrestd:6820"}


def _values(**more: Any) -> dict[str, Any]:
    return {"scheduler": {"replicas": 0, "config": {"slurm": _SLURM}} | more}


@pytest.fixture
async def release(live_helm: Helm, kube: Kube, home: str) -> AsyncIterator[Release]:
    """Taken away even if the test fails: its policies cover the whole cluster."""
    release = Release(live_helm, kube, _NAME, home)
    yield release
    await release.uninstall()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The chart as of a version before."""
    return chart_of_version("0.0.9", folder=tmp_path)


async def test_newer_chart_with_the_same_values_leaves_the_pod_alone(
    kube: Kube, release: Release, older: Path
) -> None:
    await release.upgrade(_values(), chart=older)
    before = await kube.get("deployments", _NAME, namespace=release.namespace)
    await release.upgrade(_values())
    after = await kube.get("deployments", _NAME, namespace=release.namespace)
    assert after["metadata"]["labels"] != before["metadata"]["labels"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    await release.uninstall()


async def test_rollback_brings_back_what_an_upgrade_has_changed(
    kube: Kube, live_kube: KubeRig, release: Release, served: str, older: Path
) -> None:
    await release.upgrade(_values(name="before"), chart=older)
    before = await kube.get("deployments", _NAME, namespace=release.namespace)
    shape = _names(live_kube, release)
    scope = {"type": "namespace", "namespaces": [served]}
    hooks = {"enabled": True, "token": "0123456789abcdef"}
    await release.upgrade(_values(name="after", scope=scope, hooks=hooks))
    assert _names(live_kube, release) != shape
    await release.rollback()
    after = await kube.get("deployments", _NAME, namespace=release.namespace)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert _names(live_kube, release) == shape
    await release.uninstall()
    await _nothing_is_left(live_kube, release)


async def test_other_scope_takes_the_rights_of_the_former_away(
    kube: Kube, live_kube: KubeRig, release: Release, served: str
) -> None:
    name = f"{release.namespace}-{_NAME}"
    await release.upgrade(_values())
    assert await kube.find("clusterroles", name) is not None
    await release.upgrade(_values(scope={"type": "namespace", "namespaces": [served]}))
    # Only a scope of the whole cluster has them.
    await policies_forgotten(kube, namespace=release.namespace)
    assert await kube.find("clusterroles", name) is None
    assert await kube.find("clusterrolebindings", name) is None
    assert await kube.find("roles", f"{name}-pods", namespace=served) is not None
    await release.uninstall()
    await _nothing_is_left(live_kube, release)


async def test_nothing_is_left_of_everything(
    live_kube: KubeRig, release: Release, served: str
) -> None:
    await release.upgrade(
        _values(
            scope={"type": "namespace", "namespaces": [served], "nodeAccess": True},
            policy={"rules": [{"name": "all", "forced": {"qos": "low"}}]},
            nodeMap={"nodes": {"a": "b"}},
            hooks={"enabled": True, "token": "0123456789abcdef"},
            podDisruptionBudget={"enabled": True},
            networkPolicy={"enabled": True},
            metrics={"service": {"enabled": True}},
        )
    )
    kinds = {it["kind"] for it in _left(live_kube, release)}
    assert len(kinds) >= 10, kinds
    await release.uninstall()
    await _nothing_is_left(live_kube, release)


async def test_two_releases_of_one_name_live_in_two_namespaces(
    live_helm: Helm, kube: Kube, release: Release, served: str
) -> None:
    other = Release(live_helm, kube, _NAME, served)
    for it in (release, other):
        await it.upgrade(_values(scope={"type": "namespace", "nodeAccess": True}))
    for it in (release, other):
        assert await kube.find("clusterroles", f"{it.namespace}-{_NAME}-nodes") is not None
        await it.uninstall()


async def test_notes_tell_the_next_command(release: Release) -> None:
    hooks = {"enabled": True, "existingSecret": "hooks"}
    slurm = _SLURM | {"protocolVersion": "24_11"}
    said = await release.upgrade(_values(hooks=hooks, config={"slurm": slurm}))
    space = f"--namespace {release.namespace}"
    for line in (
        f"kubectl create secret generic {_NAME}-slurm-token {space}",
        f"kubectl create secret generic hooks {space}",
        f"kubectl rollout status deployment/{_NAME} {space}",
        f"helm test {_NAME} {space} --logs",
        "scheduler.config.slurm.protocolVersion is SUNK's and has no effect here.",
    ):
        assert line in said
    assert "usePersistentConnection" not in said
    await release.uninstall()


async def test_monitor_without_its_operator_is_refused_with_its_name(release: Release) -> None:
    with pytest.raises(ToolError, match=r'no matches for kind "PodMonitor"[^\0]*CRDs'):
        await release.upgrade(_values(podMonitor={"enabled": True}))
    await release.uninstall()


def _names(rig: KubeRig, release: Release) -> set[tuple[str, str, str]]:
    """Kind, namespace and name of each object of the chart; ReplicaSets are the Deployment's."""
    places = ((it["kind"], it["metadata"]) for it in _left(rig, release))
    found = {(kind, meta.get("namespace", ""), meta["name"]) for kind, meta in places}
    return {it for it in found if it[0] != "ReplicaSet"}


async def _nothing_is_left(rig: KubeRig, release: Release) -> None:
    """At once, but for the Deployment's ReplicaSets, which the garbage collector takes."""
    assert {it["kind"] for it in _left(rig, release)} <= {"ReplicaSet"}
    async with asyncio.timeout(_COLLECTED_SECONDS):
        while _left(rig, release):  # noqa: ASYNC110 - of the API server
            await asyncio.sleep(0.1)


def _left(rig: KubeRig, release: Release) -> list[Object]:
    """All objects of the release, of whatever kind."""
    found = []
    for base in _group_versions(rig):
        for kind in rig.ask("GET", base).body.get("resources", ()):
            if "list" in kind["verbs"] and kind["name"] != "events":
                listing = rig.ask(
                    "GET",
                    f"{base}/{kind['name']}?labelSelector=app.kubernetes.io/instance={release.name}",
                )
                items = listing.body["items"]
                found += [it | {"kind": kind["kind"]} for it in items if _of(it, release)]
    return found


def _of(it: Object, release: Release) -> bool:
    """Whether that release made it; helm writes it down."""
    annotations = it["metadata"].get("annotations", {})
    return bool(annotations.get("meta.helm.sh/release-namespace") == release.namespace)


def _group_versions(rig: KubeRig) -> list[str]:
    groups = rig.ask("GET", "/apis").body["groups"]
    return ["/api/v1", *(f"/apis/{it['preferredVersion']['groupVersion']}" for it in groups)]
