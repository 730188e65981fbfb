"""The scheduler does all its work with the rights of the manifest, and no others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import yaml

from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.kube import Kube
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

MANIFEST: Final = Path(__file__).parents[2] / "deploy/manifests/rbac.yaml"
_NAME: Final = "slurm-pod-scheduler"


@pytest.fixture(params=["live_26", "live_24"], ids=["live-26.05", "live-24.11"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The model has no RBAC."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def scheduler(
    cluster: Cluster, kube: Kube, tmp_path: Path
) -> AsyncIterator[SchedulerProcess]:
    """The scheduler as its own ServiceAccount."""
    from tests.rigs.kube_files import kubeconfig

    for body in yaml.safe_load_all(MANIFEST.read_text()):
        await kube.apply(body)
    token = await kube.service_account_token(_NAME, namespace=_NAME)
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(cluster.kube_ca, cluster.kube_url, token)))
    flags = (f"--kubeconfig={config}",)
    with SchedulerProcess(cluster, folder=tmp_path, flags=flags) as process:
        yield process


async def test_pods_are_served_told_and_evicted_with_the_rights_of_the_manifest(
    world: World, live_kube: KubeRig
) -> None:
    await world.create("wrong", cpus=None)
    await world.event("SchedulingFailed", name="wrong")
    await world.create()
    job = await world.placeholder(await world.running())
    await world.event("Scheduled")
    await world.slurm.cancel(job.job_id)
    await world.gone()
    evicted = world.history.of("train")[-1].pod
    assert pods.condition(evicted, "DisruptionTarget") is not None
    await world.create("next")
    await world.running("next")
    assert [request for request in _asked(live_kube) if request.startswith("403")] == []


def _asked(rig: KubeRig) -> list[str]:
    """Status, verb and path of each request of the service account."""
    entries = [json.loads(line) for line in rig.audit_log.read_text().splitlines()]
    mine = [it for it in entries if it["user"].get("username", "").endswith(f":{_NAME}:{_NAME}")]
    asked = [
        f"{it['responseStatus']['code']} {it['verb']} {it['requestURI']}"
        for it in mine
        if "responseStatus" in it
    ]
    assert asked, "the audit log knows nothing of the scheduler"
    return asked
