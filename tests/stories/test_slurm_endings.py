"""Story 3: when Slurm ends a job, its pod is told why and ended with its grace, and heals."""

from __future__ import annotations

import pytest

from tests.support import pods
from tests.support.kube import Object
from tests.support.world import World

pytestmark = pytest.mark.timeout(120)

_GRACE = 4


async def test_cancelled_job_evicts_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    await _evicted(world, pod, reason="PlaceholderCancelled", words=(f"{job.job_id}", "CANCELLED"))


async def test_cancelled_job_of_a_waiting_pod_ends_the_pod(world: World) -> None:
    await world.fill()
    await world.create()
    pod = await world.waiting()
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    await world.gone()
    last = world.history.removed(pod["metadata"]["uid"])
    assert last is None or pods.node_of(last.pod) is None


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_time_limit_evicts_the_pod(world: World) -> None:
    await world.create(grace=_GRACE, slurm={"timeout": "60"})
    pod = await world.running()
    job = await world.placeholder(pod)
    assert job.number("time_limit") == 1
    uid = pod["metadata"]["uid"]

    async def ended() -> bool:
        return world.history.removed(uid) is not None

    # One minute is the least; slurmctld looks at time limits each 30 s.
    await world.until("the pod is gone", ended, seconds=150)
    await _evicted(world, pod, reason="TimeLimit", words=(f"{job.job_id}", "TIMEOUT"))


async def test_preempted_job_evicts_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await _preempt(world, pod)
    await _evicted(world, pod, reason="Preempted", words=(f"{job.job_id}", "PREEMPTED"))


async def test_preempted_job_with_grace_time_gives_its_pod_what_is_left_of_it(
    world: World,
) -> None:
    pod = await _running(world, grace=20, partition=world.cluster.grace_partition)
    job = await world.placeholder(pod)
    await _preempt(world, pod)
    await _gone(world, pod)
    _told(world, pod, reason="Preempted", words=(f"{job.job_id}", "GraceTime"))
    given = _given_grace(world)
    assert 0 < given < 15, "the grace partition gives 15 s"


async def test_preempted_job_with_grace_time_leaves_a_short_grace_as_it_is(world: World) -> None:
    pod = await _running(world, grace=1, partition=world.cluster.grace_partition)
    await _preempt(world, pod)
    await _gone(world, pod)
    _told(world, pod, reason="Preempted", words=("GraceTime",))
    assert _given_grace(world) == 1


async def test_node_set_down_evicts_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.set_node(job.nodes, "DOWN")
    await _evicted(world, pod, reason="NodeFailed", words=(f"{job.job_id}", "NODE_FAIL"))


async def test_drained_node_keeps_its_pod(world: World) -> None:
    pod = await _running(world)
    job = await world.placeholder(pod)
    await world.set_node(job.nodes, "DRAIN")
    # A second pod takes the whole way meanwhile, so a wrong eviction would have shown.
    await world.create("second")
    await world.running("second")
    now = await world.kube.get("pods", "train", namespace=world.namespace)
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert not pods.leaving(now)


async def test_deployment_of_three_heals_through_slurm(world: World) -> None:
    await world.kube.create("deployments", _deployment(3), namespace=world.namespace)
    first = await _three_run(world)
    victim = min(first)
    job = await world.placeholder(first[victim])
    await world.slurm.cancel(job.job_id)

    async def healed() -> bool:
        now = await _three_run(world)
        return victim not in now

    await world.until("three run again, the victim not among them", healed)
    live = await world.slurm.live_placeholders(world.namespace)
    assert len(live) == 3, live
    assert world.history.removed(victim) is not None


async def _running(world: World, *, grace: int = _GRACE, **slurm: str) -> Object:
    await world.create(grace=grace, slurm=slurm)
    return await world.running()


async def _preempt(world: World, pod: Object) -> None:
    """Have a job of higher priority want the pod's whole node."""
    node = pods.node_of(pod)
    assert node is not None
    await world.native_job(
        "preemptor",
        partition=world.cluster.high_partition,
        required_nodes=[node],
        cpus_per_task=world.cluster.cpus_per_node,
    )


async def _evicted(world: World, pod: Object, *, reason: str, words: tuple[str, ...]) -> None:
    """The pod is told, then deleted with its own grace, and goes; its job's end is in the Event."""
    await _gone(world, pod)
    _told(world, pod, reason=reason, words=words)
    assert _given_grace(world) == _GRACE
    event = await world.event(reason)
    assert words[0] in event["message"]


async def _gone(world: World, pod: Object) -> None:
    uid = pod["metadata"]["uid"]

    async def removed() -> bool:
        return world.history.removed(uid) is not None

    await world.until("the pod is gone", removed)


def _told(world: World, pod: Object, *, reason: str, words: tuple[str, ...]) -> None:
    """The pod bore the condition from before its deletion to its end."""
    last = world.history.removed(pod["metadata"]["uid"])
    assert last is not None
    told = pods.condition(last.pod, "DisruptionTarget")
    assert told is not None, pods.summary(last.pod)
    assert (told["status"], told["reason"]) == ("True", reason)
    assert not [word for word in words if word not in told["message"]], told
    assert all(pods.condition(it, "DisruptionTarget") for it in _leaving(world))


def _given_grace(world: World) -> int:
    return int(_leaving(world)[0]["metadata"]["deletionGracePeriodSeconds"])


def _leaving(world: World) -> list[Object]:
    leaving = [it.pod for it in world.history.of("train") if pods.leaving(it.pod)]
    assert leaving
    return leaving


async def _three_run(world: World) -> dict[str, Object]:
    """The three pods of the Deployment by uid, once three of them run and none is leaving."""

    async def look() -> dict[str, Object] | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        run = {it["metadata"]["uid"]: it for it in found if pods.phase(it) == "Running"}
        return run if len(run) == 3 and not any(pods.leaving(it) for it in found) else None

    return await world.until("three pods run", look)


def _deployment(replicas: int) -> Object:
    template = pods.pod("worker", grace=_GRACE)
    del template["metadata"]["name"]
    return {
        "metadata": {"name": "worker"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "worker"}},
            "template": template,
        },
    }
