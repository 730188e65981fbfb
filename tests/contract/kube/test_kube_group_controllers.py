"""What the real controllers of groups write on their pods, and what their objects tell of gangs.

No model stands in for them, so these tests have only a real server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from scheduler.core.gang_shape import GangShape, NoGang, blocks_of, rank_of
from scheduler.core.gang_sources import Source
from tests.contract.kube.client import NOBODY, Body, KubeClient, Namespace, eventually
from tests.contract.kube.conftest import namespace_of
from tests.contract.kube.gangs import gang_of, read_shape

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

pytestmark = pytest.mark.live

_APIS: Final = {
    "JobSet": "/apis/jobset.x-k8s.io/v1alpha2",
    "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1",
    "PodGroup": "/apis/scheduling.k8s.io/v1alpha2",
}
CONTAINERS: Final = [{"name": "main", "image": "example.invalid/none:1"}]
POD: Final = {"schedulerName": NOBODY, "containers": CONTAINERS}


@pytest.fixture
async def kube(live_pod_groups: KubeRig) -> AsyncIterator[KubeClient]:
    rig = live_pod_groups
    async with KubeClient(rig.url, token=rig.token, ca=rig.ca) as client:
        yield client


@pytest.fixture
def controllers(live_group_controllers: KubeRig) -> None:
    """The controllers run."""


async def _create(kube: KubeClient, namespace: Namespace, kind: str, spec: Any) -> None:
    api = _APIS[kind]
    body = {"apiVersion": api.removeprefix("/apis/"), "kind": kind, "metadata": {"name": "g"}}
    path = namespace.path(f"{kind.lower()}s", api=api)
    answer = await kube.post(path, {**body, "spec": spec})
    assert answer.status == 201, answer.body


async def _pods(namespace: Namespace, count: int) -> dict[str, Body]:
    """The pods by name, once there are so many that are not being deleted."""
    return {it["metadata"]["name"]: it for it in await namespace.pods(count)}


async def _become_ready(namespace: Namespace, name: str) -> None:
    ready = {"type": "Ready", "status": "True"}
    await namespace.set_status(name, phase="Running", conditions=[ready])


@pytest.mark.usefixtures("controllers")
async def test_each_group_of_a_leaderworkerset_is_a_gang_in_order(
    kube: KubeClient, namespace: Namespace
) -> None:
    template = {"size": 3, "workerTemplate": {"spec": POD}}
    await _create(
        kube,
        namespace,
        "LeaderWorkerSet",
        {"replicas": 2, "leaderWorkerTemplate": template},
    )
    pods = await _pods(namespace, 6)
    gangs = {name: gang_of(pod) for name, pod in pods.items()}
    assert {it.source for it in gangs.values()} == {Source.LWS}
    for group in ("g-0", "g-1"):
        members = [gangs[f"{group}{end}"] for end in ("", "-1", "-2")]
        assert [(it.name, it.size, it.rank) for it in members] == [
            (group, 3, rank) for rank in range(3)
        ]
        assert len({it.key for it in members}) == 1
        assert await read_shape(kube, members[0]) == GangShape(size=3, minimum=3)
    assert len({it.key for it in gangs.values()}) == 2


@pytest.mark.usefixtures("controllers")
async def test_workers_come_when_their_leader_is_ready_and_a_new_group_is_the_same_gang(
    kube: KubeClient, namespace: Namespace
) -> None:
    template = {"size": 2, "workerTemplate": {"spec": POD}}
    spec = {"startupPolicy": "LeaderReady", "leaderWorkerTemplate": template}
    await _create(kube, namespace, "LeaderWorkerSet", spec)
    leader = gang_of((await _pods(namespace, 1))["g-0"])
    assert await read_shape(kube, leader) == GangShape(size=2, minimum=1)
    await _become_ready(namespace, "g-0")
    first = await _pods(namespace, 2)
    assert gang_of(first["g-0-1"]).key == leader.key
    await kube.delete(namespace.path("pods", "g-0-1"), gracePeriodSeconds=0)

    async def recreated() -> Body | None:
        answer = await kube.get(namespace.path("pods", "g-0"))
        if answer.status != 200 or "deletionTimestamp" in answer.body["metadata"]:
            return None
        return answer.body if answer.uid != first["g-0"]["metadata"]["uid"] else None

    again: Body = await eventually(recreated, "the leader is made again")
    assert gang_of(again).key == leader.key


@pytest.mark.usefixtures("controllers")
async def test_pods_of_a_jobset_are_one_gang_in_the_order_of_its_jobs(
    kube: KubeClient, namespace: Namespace
) -> None:
    pod = {"spec": {**POD, "restartPolicy": "Never"}}
    job = {"spec": {"parallelism": 2, "completions": 2, "template": pod}}
    parts = [{"name": "b", "replicas": 1}, {"name": "a", "replicas": 2}]
    spec = {"replicatedJobs": [{**it, "template": job} for it in parts]}
    await _create(kube, namespace, "JobSet", spec)
    gangs = {name: gang_of(pod) for name, pod in (await _pods(namespace, 6)).items()}
    assert {it.source for it in gangs.values()} == {Source.JOBSET}
    assert len({it.key for it in gangs.values()}) == 1
    shape = await read_shape(kube, next(iter(gangs.values())))
    assert shape == GangShape(size=6, minimum=6, blocks=blocks_of([(1, 2), (2, 2)]))
    ranks = {rank_of(it, shape): name.rpartition("-")[0] for name, it in gangs.items()}
    assert [ranks[it] for it in range(6)] == [
        f"g-{job}-{index}" for job in ("b-0", "a-0", "a-1") for index in (0, 1)
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"gang": {"minCount": 2}}, GangShape(size=2, minimum=2, open=True)),
        ({"basic": {}}, None),
    ],
    ids=["gang", "basic"],
)
async def test_pod_names_the_pod_group_of_kubernetes_and_that_its_policy(
    kube: KubeClient, namespace: Namespace, policy: Body, expected: GangShape | None
) -> None:
    await _create(kube, namespace, "PodGroup", {"schedulingPolicy": policy})
    spec = {**POD, "schedulingGroup": {"podGroupName": "g"}}
    answer = await kube.post(namespace.path("pods"), {"metadata": {"name": "p"}, "spec": spec})
    assert answer.status == 201, answer.body
    member = gang_of(answer.body)
    assert (member.source, member.name) == (Source.POD_GROUP, "g")
    found = await read_shape(kube, member)
    assert found == expected if expected is not None else isinstance(found, NoGang)


async def test_server_without_the_gate_drops_the_group_of_a_pod(
    live_control_plane: KubeRig,
) -> None:
    """So its pods are no gang by their group, and the scheduler has nowhere to write."""
    rig = live_control_plane
    async with (
        KubeClient(rig.url, token=rig.token, ca=rig.ca) as kube,
        namespace_of(kube) as namespace,
    ):
        spec = {**POD, "schedulingGroup": {"podGroupName": "g"}}
        answer = await kube.post(namespace.path("pods"), {"metadata": {"name": "p"}, "spec": spec})
        assert answer.status == 201, answer.body
        assert "schedulingGroup" not in answer.body["spec"]
        assert (await kube.get(namespace.path("podgroups", api=_APIS["PodGroup"]))).status == 404
