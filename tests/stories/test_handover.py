"""Two jobs on one node: the next one's processes start when the pod of the last one has stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.hooks import hooks_on, secret_file
from tests.support.kube import Object
from tests.support.ports import free_ports
from tests.support.scheduler import SchedulerProcess
from tests.support.slurm import Record
from tests.support.world import World

_STOP_SECONDS: Final = 4
# From the moment the pod is gone to the start of the job that waited for it; a second on an idle
# machine, while the hook itself would ask again only after half a minute.
_AT_ONCE_SECONDS: Final = 8.0
_SCRIPT: Final = "#!/bin/sh\nexit 0\n"


@pytest.fixture
def scheduler(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """The scheduler with a hooks API, which nobody asks yet."""
    flags = (f"--hooks-api-token-file={secret_file(tmp_path)}",)
    with SchedulerProcess(cluster, folder=tmp_path, flags=flags) as process:
        yield process


async def test_script_of_the_next_job_starts_when_the_pod_has_stopped(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await _running_pod(world)
        following = await _next_job(world, pod)
        await _cancel_placeholder(world, pod)
        held_for = await _started_after_the_pod(world, following)
    assert held_for > _STOP_SECONDS / 2, "the containers stopped sooner than they should"
    await world.job_ended(following, state="COMPLETED")
    assert _guards(world, "freed") == 1


async def test_next_pod_is_bound_when_the_one_before_has_stopped(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await _running_pod(world)
        node = pods.node_of(pod)
        others = await _fill_others(world, str(node))
        await _create(world, "second")
        await world.waiting("second")
        await _cancel_placeholder(world, pod)
        second = await world.bound("second")
    assert pods.node_of(second) == node
    assert world.history.removed(pod["metadata"]["uid"]), "both pods were on one node"
    await world.end_native(others)


async def test_job_beside_a_pod_that_stays_starts_at_once(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await _running_pod(world, cpus=2)
        following = await _next_job(world, pod, cpus=2)
        await world.job_ended(following, state="COMPLETED")
    assert _guards(world, "freed") == 0
    world.unharmed(pod)


async def test_deleted_pod_leaves_a_node_that_is_free(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await _running_pod(world)
        following = await _next_job(world, pod)
        await world.delete()
        await _started_after_the_pod(world, following)
    assert _guards(world, "freed") == 0, "the placeholder itself held the node"


async def test_job_starts_by_policy_when_nobody_answers(world: World) -> None:
    (closed,) = free_ports(1)
    nowhere = f"http://127.0.0.1:{closed}"
    with hooks_on(world.cluster, nowhere, UNREACHABLE_SECONDS=3):
        began = time.monotonic()
        job_id = await _job(world, world.cluster.nodes_for_scripts[0])
        await world.job_ended(job_id, state="COMPLETED")
        assert time.monotonic() - began > 2


async def test_job_starts_by_policy_when_the_secret_is_wrong(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url, TOKEN_FILE="/etc/hostname"):
        job_id = await _job(world, world.cluster.nodes_for_scripts[0])
        await world.job_ended(job_id, state="COMPLETED")


async def test_settings_that_are_no_shell_hold_nobody_back(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url, POLICY="'(((`"):
        job_id = await _job(world, world.cluster.nodes_for_scripts[0])
        await world.job_ended(job_id, state="COMPLETED")


async def test_job_starts_by_policy_when_a_pod_does_not_stop(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url, WAIT_SECONDS=2):
        pod = await _running_pod(world, stop_seconds=8)
        following = await _next_job(world, pod)
        await _cancel_placeholder(world, pod)
        await world.job_ended(following, state="COMPLETED")
    assert world.history.removed(pod["metadata"]["uid"]) is None
    assert _guards(world, "busy") == 1


async def test_waiting_outlasts_a_restart_of_the_scheduler(world: World) -> None:
    with hooks_on(world.cluster, world.scheduler.hooks_url):
        pod = await _running_pod(world, stop_seconds=8)
        following = await _next_job(world, pod)
        await _cancel_placeholder(world, pod)
        await world.pod_that("is being deleted", pods.leaving)
        world.scheduler.kill()
        world.scheduler.start()
        await _started_after_the_pod(world, following)


@pytest.mark.live
async def test_policy_drain_takes_the_nodes_out_of_service(world: World) -> None:
    if not world.cluster.name.startswith("live"):
        pytest.skip("the model has no scontrol")
    (closed,) = free_ports(1)
    node = world.cluster.nodes_for_scripts[0]
    nowhere = f"http://127.0.0.1:{closed}"
    with hooks_on(world.cluster, nowhere, UNREACHABLE_SECONDS=1, POLICY="drain"):
        world.mend_later(node)
        job_id = await _job(world, node)
        await world.job_ended(job_id, state="COMPLETED")
    answer = await world.slurm.ask("GET", f"node/{node}")
    (seen,) = answer.body["nodes"]
    assert "DRAIN" in seen["state"]
    assert "slurm-pod-scheduler: no answer of" in seen["reason"]


async def _create(
    world: World, name: str = "train", *, cpus: int | None = None, stop_seconds: int = _STOP_SECONDS
) -> None:
    """A pod that takes a whole node, and its time to stop."""
    await world.create(
        name,
        cpus=str(cpus or world.cluster.cpus_per_node),
        grace=20,
        slurm={"partition": world.cluster.script_partition},
        annotations={"sandbox/stop-seconds": str(stop_seconds)},
    )


async def _running_pod(world: World, **more: Any) -> Object:
    await _create(world, **more)
    return await world.running()


async def _cancel_placeholder(world: World, pod: Object) -> None:
    await world.slurm.cancel((await world.placeholder(pod)).job_id)


async def _job(world: World, node: str, *, cpus: int = 1) -> int:
    """A batch job on that node whose script ends as soon as it has begun."""
    return await world.native_job(
        flags=[],
        script=_SCRIPT,
        partition=world.cluster.script_partition,
        required_nodes=[node],
        cpus_per_task=cpus,
    )


async def _next_job(world: World, pod: Object, *, cpus: int | None = None) -> int:
    wanted = cpus or world.cluster.cpus_per_node
    return await _job(world, str(pods.node_of(pod)), cpus=wanted)


async def _fill_others(world: World, node: str) -> int:
    """A job on all nodes of the partition but one."""
    nodes = [it for it in world.cluster.nodes_for_scripts if it != node]
    return await world.native_job(
        "filler",
        partition=world.cluster.script_partition,
        required_nodes=nodes,
        nodes=str(len(nodes)),
        tasks=len(nodes),
        cpus_per_task=world.cluster.cpus_per_node,
    )


async def _started_after_the_pod(world: World, job_id: int) -> float:
    """Wait until the job's script has begun, and see the pod gone; for how long it was held."""
    allocated_at: float | None = None
    gone_at = time.monotonic()
    async with asyncio.timeout(60):
        while True:
            record = await world.slurm.job(job_id)
            there = await world.kube.find("pods", "train", namespace=world.namespace) is not None
            assert record is not None
            if _started(record):
                assert not there, f"{record.states} while the pod is there"
                assert time.monotonic() - gone_at < _AT_ONCE_SECONDS
                return gone_at - (allocated_at or gone_at)
            if record.states[0] == "RUNNING" and allocated_at is None:
                allocated_at = time.monotonic()
            if there:
                gone_at = time.monotonic()
            await asyncio.sleep(0.05)


def _started(record: Record) -> bool:
    return record.states[0] in {"RUNNING", "COMPLETED"} and "CONFIGURING" not in record.states


def _guards(world: World, answer: str) -> float:
    """How often the guard has answered so."""
    labels = {"hook": "guard", "answer": answer}
    return world.scheduler.metric("slurm_scheduler_hook_seconds_count", labels)
