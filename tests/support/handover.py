"""Stories of two jobs on one node: the job of a pod ends, and a batch job follows it."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from tests.support import pods
from tests.support.kube import Object
from tests.support.slurm import Record
from tests.support.world import World

STOP_SECONDS: Final = 4
# Where somebody must find the pod still there. On a crowded machine Slurm took over 12 s to give a
# node away, so `let_stop` ends the pod once somebody waits for it. Until then it has the longest
# grace that the scheduler takes: KillWait less 6 s.
STOPS_WHEN_LET: Final = 24
# The longest time from the pod's removal to the start of the job that waited for it. It takes one
# second on an idle machine and over eight on a busy one. Without an answer to its waiting request
# the hook would ask again only after 30 s.
_AT_ONCE_SECONDS: Final = 20.0
_SCRIPT: Final = "#!/bin/sh\nexit 0\n"


async def create_pod(
    world: World,
    name: str = "train",
    *,
    cpus: int | None = None,
    stop_seconds: int = STOP_SECONDS,
    slurm: dict[str, str] | None = None,
) -> None:
    """Create a pod that needs `stop_seconds` to stop; by default it takes a whole node. `slurm` has
    annotations of ours that replace the partition or stand beside it.
    """
    await world.create(
        name,
        cpus=str(cpus or world.cluster.cpus_per_node),
        grace=STOPS_WHEN_LET,
        slurm={"partition": world.cluster.script_partition} | (slurm or {}),
        annotations={"sandbox/stop-seconds": str(stop_seconds)},
    )


async def running_pod(world: World, name: str = "train", **more: Any) -> Object:
    """Create a pod as `create_pod` does, and return it once its containers run."""
    await create_pod(world, name, **more)
    return await world.running(name)


async def script_begun(world: World, pod: Object) -> Record:
    """The pod's job, once its script has begun and can receive a signal.

    A batch job that is cancelled in the second of its start lingers for 20 s (24.11.5).
    """

    async def marked() -> Record | None:
        record = await world.placeholder(pod)
        return record if str(record.raw.get("extra", "")).endswith(": started") else None

    record = await world.until("the script has begun", marked)
    started_at = record.number("start_time")
    assert started_at is not None
    await asyncio.sleep(max(0.0, started_at + 1.5 - time.time()))
    return record


async def cancel_placeholder(world: World, pod: Object) -> None:
    """Cancel the job of a pod, as an operator would; on real nodes once its script has begun."""
    cluster = world.cluster
    is_process = cluster.name.startswith("live") and cluster.placeholder_mode == "script"
    job = await (script_begun if is_process else World.placeholder)(world, pod)
    await world.slurm.cancel(job.job_id)


async def quick_job(world: World, node: str, *, cpus: int = 1) -> int:
    """Submit a batch job to that node whose script ends as soon as it has begun."""
    return await world.native_job(
        flags=[],
        script=_SCRIPT,
        partition=world.cluster.script_partition,
        required_nodes=[node],
        cpus_per_task=cpus,
    )


async def next_job(world: World, pod: Object, *, cpus: int | None = None) -> int:
    """Submit a `quick_job` to the pod's node, by default with all its CPUs."""
    wanted = cpus or world.cluster.cpus_per_node
    return await quick_job(world, str(pods.node_of(pod)), cpus=wanted)


async def fill_others(world: World, node: str) -> int:
    """Submit a native job to all nodes of the partition but this one."""
    nodes = [it for it in world.cluster.nodes_for_scripts if it != node]
    return await world.native_job(
        "filler",
        partition=world.cluster.script_partition,
        required_nodes=nodes,
        nodes=str(len(nodes)),
        tasks=len(nodes),
        cpus_per_task=world.cluster.cpus_per_node,
    )


async def let_stop(world: World, name: str = "train") -> None:
    """Let a pod stop that is being deleted: a second deletion makes its grace shorter."""
    await world.kube.delete("pods", name, namespace=world.namespace, grace_seconds=1)


async def let_stop_when_a_guard_waits(world: World) -> None:
    """Wait until the guard of the next job waits for the pod `train`, and let that pod stop."""

    async def waits() -> bool:
        return world.scheduler.metric("slurm_pod_scheduler_hook_waits", {"hook": "guard"}) >= 1

    await world.pod_that("is being deleted", pods.leaving)
    await world.until("the guard of the next job waits", waits)
    await let_stop(world)


async def started_after_the_pod(world: World, job_id: int) -> None:
    """Wait until the job's script has begun, and check that the pod's containers have ended."""
    gone_at = time.monotonic()
    async with asyncio.timeout(60):
        while True:
            record = await world.slurm.job(job_id)
            pod = await world.kube.find("pods", "train", namespace=world.namespace)
            # The kubelet reports the end of the containers first, and removes the pod afterwards.
            there = pod is not None and not pods.has_ended(pod)
            assert record is not None
            if _started(record):
                assert not there, f"{record.states} while the pod is there"
                assert time.monotonic() - gone_at < _AT_ONCE_SECONDS
                return
            if there:
                gone_at = time.monotonic()
            await asyncio.sleep(0.05)


async def next_job_is_held(world: World) -> None:
    """Story: the guard holds the next job until the pod whose job ended has stopped."""
    await next_job_comes_after(world, await running_pod(world, stop_seconds=STOPS_WHEN_LET))
    assert guards(world, "freed") == 1


async def next_job_comes_after(world: World, pod: Object) -> None:
    """Cancel the job of the pod `train`; the guard holds the next job until the pod has stopped."""
    following = await next_job(world, pod)
    await cancel_placeholder(world, pod)
    await let_stop_when_a_guard_waits(world)
    await started_after_the_pod(world, following)
    await world.job_ended(following, state="COMPLETED")


def _started(record: Record) -> bool:
    return record.states[0] in {"RUNNING", "COMPLETED"} and "CONFIGURING" not in record.states


def guards(world: World, answer: str) -> float:
    """How often the guard has given this answer."""
    return _answered(world, "guard", answer)


async def ended_when_told(world: World, job_id: int, *, state: str) -> None:
    """Right after a pod has gone, wait until a job has ended; check that the hooks API ended it.

    The job is the one whose script waited for that pod, or the job that follows it. KillWait would
    end it too, but later.
    """
    gone_at = time.monotonic()
    await world.job_ended(job_id, state=state)
    assert _answered(world, "gone", "free") + _answered(world, "gone", "freed") >= 1
    assert time.monotonic() - gone_at < _AT_ONCE_SECONDS, "KillWait alone would take longer"


def _answered(world: World, hook: str, answer: str) -> float:
    labels = {"hook": hook, "answer": answer}
    return world.scheduler.metric("slurm_pod_scheduler_hook_seconds_count", labels)
