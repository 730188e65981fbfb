"""Gangs as the real controllers of LeaderWorkerSets and JobSets make them: each gets one job, in
the order of its ranks, and keeps it when its pods are created again.

No model stands in for these controllers, so the stories are told on real servers alone.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.stories.clusters import LIVE, told_on
from tests.stories.test_gangs import all_run, nodes_in_order, one_job
from tests.support import pods
from tests.support.kube import Object
from tests.support.slurm import Record
from tests.support.world import World

if TYPE_CHECKING:
    from tests.rigs.kube import KubeRig

# The fixture `sets` comes after `world`, so that the sets go before their pods are deleted.
pytestmark = [
    pytest.mark.xdist_group("group_controllers"),
    pytest.mark.usefixtures("controllers", "sets"),
]

cluster = told_on(*LIVE)

_KINDS: Final = {
    "leaderworkersets": ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
}
_IN_ORDER: Final = {"startupPolicy": {"startupPolicyOrder": "InOrder"}}
# All Nodes have the same value, so it does not matter which of them Slurm chooses.
_TOPOLOGY: Final = "kubernetes.io/os"
_EXCLUSIVE: Final = {
    "leaderworkerset.sigs.k8s.io/exclusive-topology": _TOPOLOGY,
    "alpha.jobset.sigs.k8s.io/exclusive-topology": _TOPOLOGY,
}
_LWS: Final = "lws/train-0"
_JOBSET: Final = "jobset/train"
_KILLS: Final = 5


@pytest.fixture(scope="module")
def controllers(live_kube: KubeRig) -> Iterator[None]:
    """Both controllers run beside the Nodes of the stories."""
    from tests.rigs import group_build
    from tests.rigs.group_controllers import GroupControllers

    with GroupControllers(live_kube, *map(group_build.ensure, group_build.SOURCES)):
        yield


@pytest.fixture
async def sets(world: World) -> AsyncIterator[None]:
    """Delete the sets after the story, and wait until nothing of theirs creates pods again."""
    yield
    for kind in _KINDS:
        for it in await world.kube.items(kind, namespace=world.namespace):
            await world.kube.delete(kind, it["metadata"]["name"], namespace=world.namespace)

    async def none_left() -> bool:
        kinds = ("statefulsets", "jobs")
        return not any([await world.kube.items(it, namespace=world.namespace) for it in kinds])

    await world.until("nobody creates pods of a set again", none_left)


async def _create(
    world: World, kind: str, spec: Object, *, annotations: dict[str, str] | None = None
) -> None:
    """Create the set `train`."""
    version, name = _KINDS[kind]
    metadata = {"name": "train", "annotations": annotations or {}}
    body = {"apiVersion": version, "kind": name, "metadata": metadata, "spec": spec}
    await world.kube.create(kind, body, namespace=world.namespace)


def _leader_worker_set(size: int, *, restart: str, **spec: Any) -> Object:
    """One group of a leader and its workers."""
    pod = pods.pod("train")
    del pod["metadata"]["name"]
    template = {"size": size, "restartPolicy": restart, "workerTemplate": pod}
    return {"replicas": 1, "leaderWorkerTemplate": template, **spec}


def _part(name: str, size: int, *, app: str = "train", after: str = "", **more: Any) -> Object:
    """A replicated Job with this number of pods, none of which is tried again by itself.

    `after` is what it waits for, as in "driver Ready"; `more` as in tests.support.pods.pod.
    """
    spec = pods.batch_job(size, name=app, **more)["spec"] | {"backoffLimit": 0}
    part = {"name": name, "replicas": 1, "template": {"spec": spec}}
    if after:
        of, status = after.split()
        part["dependsOn"] = [{"name": of, "status": status}]
    return part


def _names(ranked: dict[int, Object]) -> list[str]:
    return [ranked[rank]["metadata"]["name"] for rank in sorted(ranked)]


def _uids(ranked: dict[int, Object]) -> set[str]:
    return {it["metadata"]["uid"] for it in ranked.values()}


async def _whole(world: World, size: int, *, group: str) -> tuple[dict[int, Object], Record]:
    """The pods of the gang by rank, once all run, and their one job, which has a node for each."""
    ranked = await all_run(world, size)
    job = await one_job(world, ranked)
    assert job.tag["group"] == group
    assert job.tag["ranks"] == list(range(size))
    assert job.number("node_count") == size
    nodes = [world.cluster.nodes.index(str(it)) for it in nodes_in_order(ranked)]
    assert nodes == sorted(nodes)
    return ranked, job


async def _come_again(world: World, before: dict[int, Object], job: Record) -> dict[int, Object]:
    """The pods that replace all of these, each on the node of its rank, in the same job."""

    async def look() -> dict[int, Object] | None:
        now = await all_run(world, len(before))
        return None if _uids(now) & _uids(before) else now

    after = await world.until("all pods have come again", look)
    assert (await one_job(world, after)).job_id == job.job_id
    assert nodes_in_order(after) == nodes_in_order(before)
    assert await _live_jobs(world) == [job.job_id]
    return after


async def _live_jobs(world: World) -> list[int]:
    return [it.job_id for it in await world.slurm.live_placeholders(world.namespace)]


def _began_alone(world: World, first: Object, *others: Object) -> None:
    """AssertionError if one of the others existed before the first had its Node."""
    name = first["metadata"]["name"]
    for other in others:
        assert world.history.when_bound(name, name=other["metadata"]["name"]) is None


async def test_group_that_is_created_again_takes_its_job_back(world: World) -> None:
    size = min(3, len(world.cluster.nodes))
    spec = _leader_worker_set(size, restart="RecreateGroupOnPodRestart")
    await _create(world, "leaderworkersets", spec)
    before, job = await _whole(world, size, group=_LWS)
    assert _names(before) == ["train-0", "train-0-1", "train-0-2"][:size]
    await world.delete("train-0-1")
    await _come_again(world, before, job)


@pytest.mark.live_on("26.05")
async def test_leader_starts_before_its_workers_exist_and_they_take_their_slots(
    world: World,
) -> None:
    spec = _leader_worker_set(3, restart="RecreateGroupOnPodRestart", startupPolicy="LeaderReady")
    await _create(world, "leaderworkersets", spec)
    before, job = await _whole(world, 3, group=_LWS)
    _began_alone(world, *before.values())
    await world.delete("train-0-2")
    await _come_again(world, before, job)


@pytest.mark.live_on("26.05")
@pytest.mark.parametrize("kind", list(_KINDS))
async def test_later_pods_of_another_size_find_slots_of_their_size(world: World, kind: str) -> None:
    spec: Object = {"replicatedJobs": [_part("driver", 1, cpus="1"), _part("workers", 2)]}
    spec |= _IN_ORDER
    if kind == "leaderworkersets":
        spec = _leader_worker_set(3, restart="None", startupPolicy="LeaderReady")
        leader = pods.pod("train", cpus="1")
        del leader["metadata"]["name"]
        spec["leaderWorkerTemplate"]["leaderTemplate"] = leader
    await _create(world, kind, spec)
    ranked = await all_run(world, 3)
    job = await one_job(world, ranked)
    assert [it["slots"] for it in job.tag["parts"]] == [1, 2]
    assert len({pods.node_of(it) for it in ranked.values()}) == 3
    _began_alone(world, *ranked.values())


@pytest.mark.live_on("26.05")
@pytest.mark.parametrize("kind", list(_KINDS))
async def test_pods_that_must_follow_their_leader_to_its_topology_come_when_it_has_a_node(
    world: World, kind: str
) -> None:
    spec: Object = {"replicatedJobs": [_part("workers", 3)]}
    if kind == "leaderworkersets":
        spec = _leader_worker_set(3, restart="RecreateGroupOnPodRestart")
    await _create(world, kind, spec, annotations=_EXCLUSIVE)
    ranked, _ = await _whole(world, 3, group=_LWS if kind == "leaderworkersets" else _JOBSET)
    _began_alone(world, *ranked.values())
    wanted = [ranked[rank]["spec"].get("nodeSelector") for rank in range(3)]
    assert wanted == [None, {_TOPOLOGY: "linux"}, {_TOPOLOGY: "linux"}]


@pytest.mark.live_on("26.05")
async def test_worker_killed_again_and_again_takes_its_slot_each_time(world: World) -> None:
    await _create(world, "leaderworkersets", _leader_worker_set(3, restart="None"))
    before, job = await _whole(world, 3, group=_LWS)
    uid = before[1]["metadata"]["uid"]

    async def back() -> Object | None:
        now = (await all_run(world, 3))[1]
        return now if now["metadata"]["uid"] != uid else None

    for _ in range(_KILLS):
        await world.delete("train-0-1")
        again = await world.until("the worker has come again", back)
        uid = again["metadata"]["uid"]
        assert pods.annotation(again, pods.JOB_ID) == str(job.job_id)
        assert pods.annotation(again, pods.NODES) == nodes_in_order(before)[1]
    world.unharmed(before[0], before[2])
    assert await _live_jobs(world) == [job.job_id]


@pytest.mark.live_on("26.05")
@pytest.mark.parametrize(
    ("after", "policy"),
    [("", _IN_ORDER), ("driver Ready", {})],
    ids=["InOrder", "dependsOn"],
)
async def test_jobs_that_wait_until_others_are_ready_are_one_gang_with_them(
    world: World, after: str, policy: Object
) -> None:
    parts = [_part("driver", 1), _part("workers", 2, after=after)]
    await _create(world, "jobsets", {"replicatedJobs": parts, **policy})
    ranked, job = await _whole(world, 3, group=_JOBSET)
    places = [name.rpartition("-")[0] for name in _names(ranked)]
    assert places == ["train-driver-0-0", "train-workers-0-0", "train-workers-0-1"]
    _began_alone(world, *ranked.values())
    assert await _live_jobs(world) == [job.job_id]


@pytest.mark.live_on("26.05")
async def test_jobs_that_wait_until_others_are_complete_are_gangs_of_their_own(
    world: World,
) -> None:
    short = {"sandbox/run-seconds": "1"}
    parts = [
        _part("prepare", 2, app="prepare", annotations=short),
        _part("workers", 2, after="prepare Complete"),
    ]
    await _create(world, "jobsets", {"replicatedJobs": parts})
    _, job = await _whole(world, 2, group="job/train-workers-0")
    found = await world.kube.items("pods", namespace=world.namespace)
    first = [it for it in found if it["metadata"]["labels"]["app"] == "prepare"]
    assert [pods.phase(it) for it in first] == ["Succeeded", "Succeeded"]
    former = await one_job(world, dict(enumerate(first)))
    assert former.tag["group"] == "job/train-prepare-0"
    assert former.tag["ranks"] == [0, 1]
    await world.job_ended(former.job_id)
    assert await _live_jobs(world) == [job.job_id]


@pytest.mark.live_on("26.05")
@pytest.mark.parametrize("policy", [{}, _IN_ORDER], ids=["AnyOrder", "InOrder"])
async def test_jobset_that_restarts_takes_its_job_back(world: World, policy: Object) -> None:
    parts = [_part("driver", 1), _part("workers", 2)]
    spec = {"replicatedJobs": parts, "failurePolicy": {"maxRestarts": 1}, **policy}
    await _create(world, "jobsets", spec)
    before, job = await _whole(world, 3, group=_JOBSET)
    await _end(world, before[0], phase="Succeeded")
    await _end(world, before[2], phase="Failed")
    await _come_again(world, before, job)
    found = await world.kube.get("jobsets", "train", namespace=world.namespace)
    assert found["status"]["restarts"] == 1


async def _end(world: World, pod: Object, *, phase: str) -> None:
    """Report that the pod's container has ended, as its kubelet would."""
    await world.kube.patch(
        "pods",
        pod["metadata"]["name"],
        {"status": {"phase": phase}},
        namespace=world.namespace,
        subresource="status",
    )
