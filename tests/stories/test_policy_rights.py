"""Rules about labels of Namespaces need one more right, which is used only with such rules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.stories.clusters import LIVE, told_on
from tests.support import rights
from tests.support.cluster import Cluster
from tests.support.doctor import Doctor
from tests.support.kube import Kube, Object
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

pytestmark = [pytest.mark.live_on("26.05"), pytest.mark.live]

_EXTRA: Final = Path(__file__).parents[2] / "deploy/examples/rbac-namespaces.yaml"
PLAIN = "rules: [{name: plain, namespaces: ['*'], forced: {comment: plain}}]"
LABELS = (
    "rules: [{name: lab, namespaceSelector: {matchLabels: {team: lab}}, forced: {comment: lab}}]"
)


# Only real clusters, because the model has no RBAC.
cluster = told_on(*LIVE)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy file without rules about labels."""
    path = tmp_path / "policy.yaml"
    path.write_text(PLAIN)
    return path


@pytest.fixture
async def scheduler(
    cluster: Cluster, kube: Kube, tmp_path: Path, policy: Path
) -> AsyncIterator[SchedulerProcess]:
    """The scheduler as its own ServiceAccount, with the rights of the manifest."""
    await rights.grant(kube)
    config = await rights.own_kubeconfig(cluster, kube, folder=tmp_path)
    flags = (f"--kubeconfig={config}", f"--policy-file={policy}")
    try:
        with SchedulerProcess(cluster, folder=tmp_path, flags=flags) as process:
            yield process
    finally:
        for body in _bodies(_EXTRA):
            await kube.delete(f"{body['kind'].lower()}s", body["metadata"]["name"])
        await rights.revoke(kube)


async def test_rules_about_labels_come_into_force_with_the_right_to_read_them(
    world: World, policy: Path, tmp_path: Path
) -> None:
    async def rights_by_doctor() -> tuple[str, str]:
        config = f"--kubeconfig={tmp_path / 'kubeconfig'}"
        words = ("-o", "json", config, f"--policy-file={policy}")
        return (await Doctor(tmp_path)(world.cluster, *words)).only("rights")

    label = {"metadata": {"labels": {"team": "lab"}}}
    await world.kube.patch("namespaces", world.namespace, label)
    _write(policy, LABELS)
    await world.until("the rules wait", lambda: _outdated(world))
    severity, words = await rights_by_doctor()
    assert severity == "error"
    assert "2 rights are missing: list namespaces, watch namespaces" in words
    await world.create("before")
    assert "plain" in str((await world.placeholder(await world.running("before"))).raw["comment"])

    for body in _bodies(_EXTRA):
        await world.kube.apply(body)
    await world.until("the rules are in force", lambda: _in_force(world))
    assert (await rights_by_doctor())[0] == "ok"
    await world.create("after")
    assert "lab" in str((await world.placeholder(await world.running("after"))).raw["comment"])


def _bodies(path: Path) -> list[Object]:
    return list(yaml.safe_load_all(path.read_text()))


def _write(policy: Path, text: str) -> None:
    policy.write_text(text)


async def _outdated(world: World) -> bool:
    return world.scheduler.metrics()["slurm_pod_scheduler_policy_outdated"] == 1


async def _in_force(world: World) -> bool:
    return not await _outdated(world)
