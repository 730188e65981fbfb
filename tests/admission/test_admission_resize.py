"""A pod that is on a Node does not grow; one that waits may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.rigs.fixtures import SIMULATED
from tests.support import pods

if TYPE_CHECKING:
    from tests.rigs.kube import Answer, KubeRig

pytestmark = pytest.mark.live


class Resized:
    """A pod, and what the API server says to a resize of it."""

    def __init__(self, rig: KubeRig, namespace: str) -> None:
        self._rig = rig
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, *, bound: bool, scheduler: str = "slurm-scheduler") -> None:
        pod = pods.pod("train", scheduler=scheduler, cpus="2", memory="1Gi")
        assert self._rig.ask("POST", self._path, pod).status == 201
        if bound:
            target = {"kind": "Node", "name": SIMULATED[0]}
            body = {"metadata": {"name": "train"}, "target": target}
            assert self._rig.ask("POST", f"{self._path}/train/binding", body).status == 201

    def resize(self, **requests: str) -> Answer:
        resources = {"requests": {"cpu": "2", "memory": "1Gi"} | requests}
        patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
        return self._rig.ask("PATCH", f"{self._path}/train/resize?dryRun=All", patch)


@pytest.fixture
def resized(policies: KubeRig, namespace: str) -> Resized:
    return Resized(policies, namespace)


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        ({"cpu": "3"}, "container main: requests.cpu is '3'"),
        ({"memory": "1025Mi"}, "container main: requests.memory is '1025Mi'"),
        ({"cpu": "1", "memory": "2Gi"}, "requests.memory is '2Gi'"),
    ],
)
def test_pod_on_a_node_does_not_grow(
    resized: Resized, requests: dict[str, Any], named: str
) -> None:
    resized.create(bound=True)
    answer = resized.resize(**requests)
    assert answer.status in {403, 422}, answer.text
    assert named in answer.text
    assert "its Slurm job cannot grow" in answer.text


@pytest.mark.parametrize("requests", [{"cpu": "1"}, {"cpu": "2000m", "memory": "1024Mi"}])
def test_pod_on_a_node_may_shrink(resized: Resized, requests: dict[str, Any]) -> None:
    resized.create(bound=True)
    assert resized.resize(**requests).status == 200


def test_pod_that_waits_may_grow(resized: Resized) -> None:
    resized.create(bound=False)
    assert resized.resize(cpu="64", memory="1Ti").status == 200


def test_pod_of_another_scheduler_may_grow(resized: Resized) -> None:
    resized.create(bound=True, scheduler="another")
    assert resized.resize(cpu="3").status == 200
