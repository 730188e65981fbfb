"""The ClusterRole in the README is enough, on an API server that enforces it, and not too much."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.rigs.kube import KubeRig
from tests.support.cluster import Cluster
from tests.support.live import LiveCluster
from tests.support.scheduler import SchedulerProcess
from tests.support.world import World

NAME = "slurm-pod-scheduler"
USER = f"system:serviceaccount:default:{NAME}"
README = Path(__file__).parents[2] / "README.md"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"

pytestmark = pytest.mark.live


@pytest.fixture
def cluster(live_26: LiveCluster) -> Cluster:
    return live_26


@pytest.fixture
def account(live_kube: KubeRig) -> Iterator[str]:
    """A token of a service account that has what the README gives it."""
    role = documented_role()
    binding = {
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": "default"}],
    }
    made = (
        ("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": NAME}}),
        (f"{_RBAC}/clusterroles", role),
        (f"{_RBAC}/clusterrolebindings", binding),
    )
    for path, body in made:
        answer = live_kube.ask("POST", path, body)
        assert answer.status == 201, answer.text
    token = live_kube.ask("POST", f"{made[0][0]}/{NAME}/token", {"spec": {}})
    yield str(token.body["status"]["token"])
    for path, _ in made:
        live_kube.ask("DELETE", f"{path}/{NAME}")


@pytest.fixture
def scheduler(
    live_26: LiveCluster, live_kube: KubeRig, account: str, tmp_path: Path
) -> Iterator[SchedulerProcess]:
    """The scheduler, under that service account."""
    limited = copy.copy(live_26)
    limited.kubeconfig = kubeconfig(live_kube, account, tmp_path)
    with SchedulerProcess(limited, folder=tmp_path) as process:
        yield process


def kubeconfig(rig: KubeRig, token: str, folder: Path) -> Path:
    path = folder / "limited.kubeconfig"
    context = {"cluster": "rig", "user": NAME}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "rig",
                "cluster": {"server": rig.url, "certificate-authority": str(rig.ca)},
            }
        ],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": "rig", "context": context}],
        "current-context": "rig",
    }
    path.write_text(json.dumps(content))
    return path


def documented_role() -> dict[str, object]:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    roles = [body for body in map(yaml.safe_load, blocks) if body["kind"] == "ClusterRole"]
    assert len(roles) == 1
    return dict(roles[0])


def asked(rig: KubeRig) -> list[tuple[int, str, str]]:
    """Status, verb and resource of each request of the service account."""
    entries = [json.loads(line) for line in rig.audit_log.read_text().splitlines()]
    return [
        (it["responseStatus"]["code"], it["verb"], _resource(it.get("objectRef") or {}))
        for it in entries
        if it["user"]["username"] == USER and "responseStatus" in it
    ]


def _resource(ref: dict[str, str]) -> str:
    parts = (ref.get("resource", ""), ref.get("subresource", ""))
    return "/".join(part for part in parts if part)


async def test_documented_role_is_what_the_scheduler_needs(
    world: World, live_kube: KubeRig
) -> None:
    await world.create("kept")
    job = await world.placeholder(await world.running("kept"))
    await world.slurm.cancel(job.job_id)  # evicted: condition, Event, deletion
    await world.gone("kept")
    await world.create("deleted")
    await world.running("deleted")
    await world.delete("deleted")
    await world.gone("deleted")
    done = asked(live_kube)
    assert [request for request in done if request[0] == 403] == []
    used = {(verb, resource) for _, verb, resource in done}
    assert {("create", "pods/binding"), ("patch", "pods/status"), ("delete", "pods")} <= used
    assert ("create", "events") in used
