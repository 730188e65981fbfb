"""The scheduler does all its work with the rights of each set of manifests, and no others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
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

MANIFESTS: Final = Path(__file__).parents[2] / "deploy/manifests"
_NAME: Final = "slurm-pod-scheduler"
_BINDINGS: Final = (_NAME, f"{_NAME}-nodes")
# Asked once, to learn what is allowed.
_UID: Final = "403 get /api/v1/namespaces/kube-system"
_NODES: Final = "403 list /api/v1/nodes?limit=1"


@dataclass(frozen=True)
class Rights:
    """A set of manifests, how the scheduler is started with it, and what it is refused."""

    manifests: tuple[str, ...]
    namespaced: bool = False
    reads_nodes: bool = True
    refused: frozenset[str] = frozenset()


SETS: Final = {
    "cluster": Rights(("rbac.yaml",)),
    "namespaced": Rights(
        ("rbac-namespaced.yaml",),
        namespaced=True,
        reads_nodes=False,
        refused=frozenset({_UID, _NODES}),
    ),
    "namespaced-with-nodes": Rights(
        ("rbac-namespaced.yaml", "rbac-nodes.yaml"), namespaced=True, refused=frozenset({_UID})
    ),
}


@pytest.fixture(params=["live_26", "live_24"], ids=["live-26.05", "live-24.11"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The model has no RBAC."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=SETS)
def rights(request: pytest.FixtureRequest) -> Rights:
    """Each set of manifests."""
    return SETS[request.param]


@pytest.fixture
async def scheduler(
    cluster: Cluster, kube: Kube, namespace: str, rights: Rights, tmp_path: Path
) -> AsyncIterator[SchedulerProcess]:
    """The scheduler as its own ServiceAccount."""
    from tests.rigs.kube_files import kubeconfig

    await _forget(kube)
    for manifest in rights.manifests:
        text = (MANIFESTS / manifest).read_text().replace("team-a", namespace)
        for body in yaml.safe_load_all(text):
            await kube.apply(body)
    token = await kube.service_account_token(_NAME, namespace=_NAME)
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(kubeconfig(cluster.kube_ca, cluster.kube_url, token)))
    scope = (f"--watch-namespace={namespace}", f"--own-namespace={_NAME}")
    flags = (f"--kubeconfig={config}", *(scope if rights.namespaced else ()))
    with SchedulerProcess(cluster, folder=tmp_path, flags=flags) as process:
        yield process
    await _forget(kube)


async def _forget(kube: Kube) -> None:
    """What another set, or another test, allows in the whole cluster would hide what is missing."""
    for name in _BINDINGS:
        await kube.delete("clusterrolebindings", name)


async def test_pods_are_served_told_and_evicted_with_the_rights_of_the_manifests(
    live_kube: KubeRig, asked_before: int, world: World, rights: Rights
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
    assert world.scheduler.metrics()["slurm_scheduler_node_checks"] == rights.reads_nodes
    refused = {it for it in _asked(live_kube)[asked_before:] if it.startswith("403")}
    assert refused == rights.refused


@pytest.fixture
def asked_before(live_kube: KubeRig) -> int:
    """How many requests former processes have made."""
    return len(_asked(live_kube))


def _asked(rig: KubeRig) -> list[str]:
    """Status, verb and path of each request of the service account."""
    entries = [json.loads(line) for line in rig.audit_log.read_text().splitlines()]
    mine = [it for it in entries if it["user"].get("username", "").endswith(f":{_NAME}:{_NAME}")]
    return [
        f"{it['responseStatus']['code']} {it['verb']} {it['requestURI']}"
        for it in mine
        if "responseStatus" in it
    ]
