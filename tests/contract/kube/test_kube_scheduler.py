"""Random pods and Nodes: the real kube-scheduler and we allow the same Nodes, filter by filter."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from scheduler.core.mapping_strategies import Strategy, Way
from scheduler.core.node_suitability import fitness
from scheduler.kube.neighbours import NEIGHBOURS, NeighbourStore
from scheduler.kube.store import Joined, Store
from scheduler.kube.wire import CLAIMS, NODES, VOLUMES, Node, PersistentVolume, Pod, decode_pod
from scheduler.nodes.candidates import Nodes
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.node_map import NodeMap
from scheduler.nodes.records import SlurmNodes
from scheduler.nodes.volumes import Volumes
from slurmapi import SlurmClient, StaticToken
from tests.contract.kube import random_worlds
from tests.contract.kube.oracle import Oracle
from tests.contract.kube.random_worlds import FEATURES, NAMESPACES
from tests.rigs.kube import KubeRig
from tests.rigs.kube_build import KubeBinaries

pytestmark = pytest.mark.live

WORLDS: Final = 5
"""Of each feature: each with PROBES pods on NODES Nodes among RESIDENTS pods."""
PROBES: Final = 8
NODES_EACH: Final = 6
RESIDENTS: Final = 14
# kube-scheduler's watches may lag behind recent writes. For this time it is asked again.
SECONDS: Final = 60.0

Body = dict[str, Any]


@pytest.fixture(scope="module")
def kube(live_kube_binaries: KubeBinaries) -> Iterator[KubeRig]:
    """An API server of these tests' own. No controller acts on its Nodes."""
    with KubeRig(live_kube_binaries) as rig:
        for name in NAMESPACES:
            _create(rig, "/api/v1/namespaces", {"metadata": {"name": name}})
            _until_created(rig, name)
        rig.stop("kube-controller-manager", kill=True)
        yield rig


@pytest.fixture(scope="module")
def oracle(kube: KubeRig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with Oracle(kube, tmp_path_factory.mktemp("oracle")) as found:
        yield found


@pytest.mark.parametrize("feature", FEATURES)
def test_kube_scheduler_allows_the_same_nodes(kube: KubeRig, oracle: Oracle, feature: str) -> None:
    asked, sizes = 0, set[int]()
    for number in range(WORLDS):
        world = _World(kube, oracle, Random(f"{feature}-{number}"), f"{feature}-{number}")
        try:
            for probe in range(PROBES):
                sizes.add(len(world.agreed(probe, feature)))
                asked += 1
        finally:
            world.clear()
    assert asked == WORLDS * PROBES
    # The comparison is not trivial: some pods may go to some Nodes and not to others.
    assert len(sizes) > 2, sizes


class _World:
    """Nodes with pods on them, on the API server."""

    def __init__(self, kube: KubeRig, oracle: Oracle, rng: Random, name: str) -> None:
        self._kube, self._oracle, self._rng, self._name = kube, oracle, rng, name
        self._claims = [f"{name}-claim-{number}" for number in range(3)]
        self.nodes = [f"{name}-n{number}" for number in range(NODES_EACH)]
        for node in self.nodes:
            self._add_node(random_worlds.node(rng, node))
        for claim in self._claims:
            volume = f"{claim}-volume"
            _create(kube, "/api/v1/persistentvolumes", random_worlds.volume(rng, volume, claim))
            claims = f"/api/v1/namespaces/{NAMESPACES[0]}/persistentvolumeclaims"
            _create(kube, claims, random_worlds.claim(rng, claim, volume))
        for number in range(RESIDENTS):
            self._add_resident(number)

    def agreed(self, number: int, feature: str) -> frozenset[str]:
        """The Nodes for one more pod, once both sides agree. Fails if they never do."""
        name = f"{self._name}-probe-{number}"
        body = random_worlds.probe(self._rng, name, feature, self._claims)
        deadline = time.monotonic() + SECONDS
        while True:
            theirs, pod = self._theirs(body)
            ours = self._ours(pod)
            _delete(self._kube, pod)
            if theirs == ours:
                return ours
            told = {"pod": body, "kube-scheduler": sorted(theirs), "we": sorted(ours)}
            assert time.monotonic() < deadline, json.dumps(told, indent=1)

    def clear(self) -> None:
        for namespace in NAMESPACES:
            path = f"/api/v1/namespaces/{namespace}/pods"
            for pod in self._kube.ask("GET", path).body["items"]:
                _delete(self._kube, pod)
            self._kube.ask("DELETE", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")
        self._kube.ask("DELETE", "/api/v1/persistentvolumes")
        self._kube.ask("DELETE", "/api/v1/nodes")

    def _add_node(self, body: Body) -> None:
        path = f"/api/v1/nodes/{body['metadata']['name']}"
        _create(self._kube, "/api/v1/nodes", {"metadata": body["metadata"]})
        # This removes the taint not-ready, which the server gives a new Node.
        self._kube.ask("PATCH", path, {"spec": {"taints": body["spec"]["taints"] or None}})
        answer = self._kube.ask("PATCH", f"{path}/status", {"status": body["status"]})
        assert answer.status == 200, answer

    def _add_resident(self, number: int) -> None:
        node = self._rng.choice(self.nodes)
        body = random_worlds.resident(self._rng, f"{self._name}-{number}", node)
        pod = _create(self._kube, _pods(body), body)
        if pod["metadata"].get("finalizers"):
            self._kube.ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    def _theirs(self, body: Body) -> tuple[frozenset[str], Body]:
        pod = _create(self._kube, _pods(body), body)
        deadline = time.monotonic() + SECONDS
        while True:
            found = self._kube.ask("GET", _path(pod)).body
            conditions = {it["type"]: it for it in found["status"].get("conditions", ())}
            if conditions.get("PodScheduled", {}).get("reason") == "Unschedulable":
                return self._oracle.allowed.pop(pod["metadata"]["uid"], frozenset()), found
            assert time.monotonic() < deadline, found
            time.sleep(0.02)

    def _ours(self, body: Body) -> frozenset[str]:
        pod = decode_pod(json.dumps(body).encode())
        judge, volumes, store = self._judge()
        if volumes.problems(pod):
            return frozenset()
        return frozenset(
            node.metadata.name
            for node in store
            if fitness(pod.spec.wishes, node.facts) is None
            and judge.unfit(pod, node.metadata.name) is None
        )

    def _judge(self) -> tuple[NodeFit, Volumes, Store[Node]]:
        """Our own check, with the state that the scheduler has when its watches have listed."""
        nodes, seen = Store[Node](), NeighbourStore()
        nodes.replace(NODES.page(self._list("nodes")).items or ())
        pvs = Store[PersistentVolume]()
        pvs.replace(VOLUMES.page(self._list("persistentvolumes")).items or ())
        volumes = Volumes(pvs)
        for claim in CLAIMS.page(self._list("persistentvolumeclaims")).items or ():
            volumes.claim_changed(None, claim)
        judge = NodeFit(
            _same_names(nodes),
            volumes=volumes,
            scheduler_name="ours",
            seen=seen,
            own=Joined[Pod](),
            binding={},
            clock=time.monotonic,
        )
        query = "?fieldSelector=spec.nodeName!%3D,status.phase!%3DSucceeded,status.phase!%3DFailed"
        for change in seen.replace(NEIGHBOURS.page(self._list("pods" + query)).items or ()):
            judge.changed(change.old, change.new)
        return judge, volumes, nodes

    def _list(self, what: str) -> bytes:
        return self._kube.ask("GET", f"/api/v1/{what}").text.encode()


def _same_names(store: Store[Node]) -> Nodes:
    client = SlurmClient("http://127.0.0.1:1", token=StaticToken("unused"))
    slurm = SlurmNodes(client, clock=time.monotonic, on_change=lambda: None)
    nodemap = NodeMap((Strategy(Way.NAME),), slurm=slurm, nodes=store)
    return Nodes(store, nodemap=nodemap, slurm=slurm, on_change=lambda: None)


def _create(kube: KubeRig, path: str, body: Body) -> Body:
    answer = kube.ask("POST", path, body)
    assert answer.status == 201, answer
    return answer.body


def _until_created(kube: KubeRig, namespace: str) -> None:
    """Wait for the service account without which the server accepts no pod there."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    deadline = time.monotonic() + SECONDS
    while kube.ask("GET", path).status != 200:
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def _delete(kube: KubeRig, pod: Body) -> None:
    if pod["metadata"].get("finalizers"):
        kube.ask("PATCH", _path(pod), {"metadata": {"finalizers": None}})
    kube.ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})


def _pods(body: Body) -> str:
    return f"/api/v1/namespaces/{body['metadata']['namespace']}/pods"


def _path(body: Body) -> str:
    return f"{_pods(body)}/{body['metadata']['name']}"
