"""Story 2: whatever ends a pod ends its job, and never before the containers have ended."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from scheduler.state.pod_remains import KUBELET_SECONDS
from tests.support import pods
from tests.support.kube import KubeAnswerError, Object
from tests.support.sandbox import SandboxCluster
from tests.support.slurm import Record
from tests.support.world import World


@pytest.mark.anywhere
async def test_pod_deleted_while_pending_cancels_job(world: World) -> None:
    await world.fill()
    await world.create(slurm={"comment": "mine"})
    job = await world.placeholder(await world.waiting())
    await world.delete()
    await world.gone()
    ended = await world.job_ended(job.job_id, state="CANCELLED")
    assert ended.raw["comment"] == "mine; pod deleted before it was bound"
    await world.nothing_left()


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_pod_deleted_before_it_has_a_job_leaves_none(world: World) -> None:
    await world.create()
    await world.delete()
    await world.gone()
    # A submission that was under way is over by the time another pod runs.
    await world.create("later")
    await world.running("later")
    await world.one_placeholder_each()


async def test_pod_deleted_while_running_cancels_job_after_its_containers(world: World) -> None:
    await world.create(grace=10, annotations={"sandbox/stop-seconds": "3"})
    job = await world.placeholder(await world.running())
    await world.delete()
    await _ends_in_order(world, job)


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_recreated_pod_of_the_same_name_gets_a_job_of_its_own(world: World) -> None:
    await world.create()
    first = await world.placeholder(await world.running())
    await world.delete()
    await world.gone()
    await world.create()
    second = await world.placeholder(await world.running())
    assert first.name != second.name
    await world.job_ended(first.job_id)
    assert [it.job_id for it in await world.slurm.live_placeholders(world.namespace)] == [
        second.job_id
    ]


@pytest.mark.parametrize(("exit_code", "phase"), [(0, "Succeeded"), (1, "Failed")])
async def test_finished_pod_leaves_no_job(world: World, exit_code: int, phase: str) -> None:
    await world.create(
        restartPolicy="Never",
        annotations={"sandbox/run-seconds": "1", "sandbox/exit-code": str(exit_code)},
    )
    job = await world.placeholder(await world.bound())
    await world.pod_that(f"has {phase}", lambda it: pods.phase(it) == phase)
    ended = await world.job_ended(job.job_id, state="CANCELLED")
    told = f"pod {phase}" if exit_code == 0 else f"pod {phase}: container main exit {exit_code}"
    assert ended.raw["comment"] == told
    assert ended.tag["outcome"] == told


@pytest.mark.live_on("26.05")
async def test_pod_evicted_by_its_api_cancels_job_once_its_budget_allows_it(world: World) -> None:
    await world.create(restartPolicy="Never")
    pod = await world.running()
    job = await world.placeholder(pod)
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "train"}}}
    body = {"metadata": {"name": "keep"}, "spec": budget}
    await world.kube.create("poddisruptionbudgets", body, namespace=world.namespace)
    assert not await _allowed(world)
    world.unharmed(pod)
    await world.kube.delete("poddisruptionbudgets", "keep", namespace=world.namespace)
    await world.until("the eviction is allowed", lambda: _allowed(world))
    await world.gone()
    ended = await world.job_ended(job.job_id, state="CANCELLED")
    assert "EvictionByEvictionAPI" in ended.raw["comment"]


@pytest.mark.slow
@pytest.mark.live_on("26.05")
async def test_force_deleted_pod_cancels_job(world: World) -> None:
    await world.create(grace=1, annotations={"sandbox/stop-seconds": "20"})
    pod = await world.running()
    job = await world.placeholder(pod)
    await world.kube.delete("pods", "train", namespace=world.namespace, grace_seconds=0)
    await world.gone()
    await world.until("its job has ended", lambda: _has_ended(world, job.job_id), seconds=60)
    lines = map(json.loads, world.scheduler.log.read_text().splitlines())
    (kept,) = (it for it in lines if it["event"].startswith("job kept"))
    assert (kept["pod"], kept["job_id"], kept["node"]) == ("train", job.job_id, pods.node_of(pod))
    assert kept["seconds"] == 1 + KUBELET_SECONDS


@pytest.mark.slow
@pytest.mark.live_on("26.05")
async def test_pod_whose_node_is_deleted_keeps_its_job_until_it_is_collected(world: World) -> None:
    await world.create()
    pod = await world.running()
    job = await world.placeholder(pod)
    node = await world.kube.get("nodes", str(pods.node_of(pod)))
    await world.kube.delete("nodes", node["metadata"]["name"])
    try:
        await world.until("the pod is collected", lambda: _is_gone(world), seconds=200)
        ended = await world.job_ended(job.job_id, state="CANCELLED")
    finally:
        await _register(world, node)
    assert "DeletionByPodGC" in ended.raw["comment"]


@pytest.mark.slow
@pytest.mark.live_on("26.05")
async def test_pod_on_a_node_out_of_service_is_removed_and_lets_go_of_its_job(world: World) -> None:
    if isinstance(world.cluster, SandboxCluster):
        pytest.skip("the model has no controller that acts on taints")
    await world.create(grace=24, annotations={"sandbox/stop-seconds": "24"})
    pod = await world.running()
    job = await world.placeholder(pod)
    node = await world.kube.get("nodes", str(pods.node_of(pod)))
    await _out_of_service(world, node)
    try:
        await world.until("the pod is removed", lambda: _is_gone(world), seconds=80)
        ended = await world.job_ended(job.job_id, state="CANCELLED")
    finally:
        await _in_service(world, node)
    assert "DeletionByTaintManager" in ended.raw["comment"]


async def _has_ended(world: World, job_id: int) -> bool:
    record = await world.slurm.job(job_id)
    assert record is not None
    return not record.live


async def _out_of_service(world: World, node: Object) -> None:
    """Mark the Node out of service, as an administrator does if it is known to be dead."""
    name = node["metadata"]["name"]
    dead = [
        it | {"status": "False", "reason": "KubeletNotReady"} if it["type"] == "Ready" else it
        for it in node["status"]["conditions"]
    ]
    status = {"status": {"conditions": dead}}
    await world.kube.patch("nodes", name, status, subresource="status")
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown"}
    patch = {"spec": {"taints": [taint | {"effect": "NoExecute"}]}}
    await world.kube.patch("nodes", name, patch)


async def _in_service(world: World, node: Object) -> None:
    name = node["metadata"]["name"]
    await world.kube.patch("nodes", name, {"spec": {"taints": None}})
    status = {"status": {"conditions": node["status"]["conditions"]}}
    await world.kube.patch("nodes", name, status, subresource="status")
    await world.until("the Node is in service", lambda: _takes_pods(world, name))


async def _takes_pods(world: World, name: str) -> bool:
    """Whether the Node is ready and has no taints of the node controller, which would disturb
    the next test.
    """
    node = await world.kube.get("nodes", name)
    ready = {"type": "Ready", "status": "True"}.items()
    is_ready = any(ready <= it.items() for it in node["status"]["conditions"])
    return is_ready and not node["spec"].get("taints")


async def _allowed(world: World) -> bool:
    """Whether the Eviction API accepts the eviction; false if a budget refuses it (429)."""
    try:
        await world.kube.evict("train", namespace=world.namespace)
    except KubeAnswerError as refusal:
        if refusal.status != 429:
            raise
        return False
    return True


async def _is_gone(world: World) -> bool:
    return await world.kube.find("pods", "train", namespace=world.namespace) is None


async def _register(world: World, node: Object) -> None:
    """Register the Node again, as its kubelet would."""
    metadata = {key: node["metadata"][key] for key in ("name", "labels")}
    await world.kube.create("nodes", {"metadata": metadata, "status": node["status"]})
    await world.until("the Node is in service", lambda: _takes_pods(world, metadata["name"]))


async def _ends_in_order(world: World, job: Record) -> None:
    """Follow the end: as long as the pod has running containers, its job must be alive."""
    containers_seen_at = time.monotonic()
    while True:
        record = await world.slurm.job(job.job_id)
        job_seen_at = time.monotonic()
        pod = await world.kube.find("pods", "train", namespace=world.namespace)
        if pod is not None and _containers_run(pod):
            assert record is not None
            assert record.live, f"job ended while containers ran: {pods.summary(pod)}"
            containers_seen_at = time.monotonic()
        elif record is None or not record.live:
            break
        assert job_seen_at - containers_seen_at < 30, await world.picture()
        await asyncio.sleep(0.1)
    await world.gone()
    await world.nothing_left()


def _containers_run(pod: Object) -> bool:
    states = [it["state"] for it in pod["status"].get("containerStatuses", ())]
    return not states or any("terminated" not in state for state in states)
