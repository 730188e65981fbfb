"""The demo's story: a Deployment loses a pod to a Slurm job and recovers; then two gangs, of which
only one can run at a time.

Every step waits until what its headline promises has happened.
"""

from __future__ import annotations

from typing import Any, Final

from scheduler.demo.stage import DemoError, Stage
from scheduler.sandbox.cluster import Sandbox, SandboxShape
from slurmapi import BaseState, JobSubmission, SlurmClient

SCHEDULER_NAME: Final = "slurm-scheduler"
SHAPE: Final = SandboxShape(nodes=2, gpus_per_node=8)

_REPLICAS: Final = 3
_GPUS: Final = 4
_BATCH: Final = ("batch-0", "batch-1", "batch-2")
_BATCH_SECONDS: Final = 2
_GANGS: Final = ("left", "right")
_STEP_SECONDS: Final = 60.0


async def play(stage: Stage, alice: SlurmClient) -> None:
    """Play all steps, from the first pod to an empty Slurm queue.

    `alice` is the Slurm client of an ordinary user. Raises DemoError if a step does not succeed in
    time, KubeError and SlurmError.
    """
    await _deploy(stage)
    await _run_to_the_end(stage)
    native = await _preempt(stage, alice)
    await _heal(stage, alice, native)
    await _leave_nothing(stage)
    await _take_turns(stage)


async def _deploy(stage: Stage) -> None:
    stage.narrator.heading(
        f"A Deployment of {_REPLICAS} pods with {_GPUS} GPUs each: every pod gets a Slurm job, "
        "and the Node Slurm picks"
    )
    await stage.create("/apis/apps/v1/deployments", _deployment())
    await stage.until(
        f"{_REPLICAS} trainer pods run",
        lambda: stage.phases("trainer") == ["Running"] * _REPLICAS,
        seconds=_STEP_SECONDS,
    )


async def _run_to_the_end(stage: Stage) -> None:
    stage.narrator.heading(
        f"{len(_BATCH)} pods that run for {_BATCH_SECONDS} s; {_GPUS} GPUs are left, so they wait "
        "in Slurm's queue for their turn"
    )
    for name in _BATCH:
        await stage.create("/api/v1/pods", _batch_pod(name))
    await stage.until(
        "the batch pods succeed, and only the trainers' jobs are left",
        lambda: (
            stage.phases("batch") == ["Succeeded"] * len(_BATCH)
            and len(stage.live_jobs()) == _REPLICAS
        ),
        seconds=_STEP_SECONDS,
    )
    for name in _BATCH:
        await stage.delete("/api/v1/pods", name)
    await stage.until(
        "the batch pods are gone", lambda: not stage.phases("batch"), seconds=_STEP_SECONDS
    )


async def _preempt(stage: Stage, alice: SlurmClient) -> int:
    stage.narrator.heading(
        "A Slurm user, alice, submits a job for all GPUs of a node; her partition preempts theirs"
    )
    native = (await alice.submit(_native_job())).job_id
    await stage.until(
        "alice's job runs and a trainer pod shows its preemption",
        lambda: _is_running(stage, native) and "Preempted" in stage.disruptions,
        seconds=_STEP_SECONDS,
    )
    stage.narrator.heading("The Deployment's new pod waits in Slurm's queue, and says why")
    await stage.until(
        "the new trainer pod says why it waits",
        lambda: (
            stage.phases("trainer") == ["Pending", *["Running"] * (_REPLICAS - 1)]
            and any(_REASON in message for message in stage.messages())
        ),
        seconds=_STEP_SECONDS,
    )
    return native


async def _heal(stage: Stage, alice: SlurmClient, native: int) -> None:
    stage.narrator.heading("alice ends her job, and Slurm gives the waiting pod its GPUs")
    await alice.cancel([native])
    await stage.until(
        f"alice's job has ended, and {_REPLICAS} trainer pods run again",
        lambda: (
            native not in stage.live_jobs() and stage.phases("trainer") == ["Running"] * _REPLICAS
        ),
        seconds=_STEP_SECONDS,
    )


async def _leave_nothing(stage: Stage) -> None:
    stage.narrator.heading(
        "The Deployment is deleted; each Slurm job ends once its pod has stopped"
    )
    await stage.delete("/apis/apps/v1/deployments", "trainer")
    await stage.until(
        "all pods are gone, and no job is left in Slurm",
        lambda: not stage.pods.values() and not stage.live_jobs(),
        seconds=_STEP_SECONDS,
    )


async def _take_turns(stage: Stage) -> None:
    size = SHAPE.nodes
    stage.narrator.heading(
        f"Two batch Jobs of {size} pods that must start together and want a whole node each: Slurm "
        "starts one of them whole, and the other waits whole"
    )
    for name in _GANGS:
        await stage.create("/apis/batch/v1/jobs", _gang_job(name, size))
    await stage.until(
        "the pods of one Job run, and those of the other say why they wait",
        lambda: (
            sorted(_running_whole(stage, size)) == [0, size]
            and sum(_REASON in message for message in stage.messages()) == size
        ),
        seconds=_STEP_SECONDS,
    )
    first, second = sorted(_GANGS, key=lambda name: not stage.placed(name))
    stage.narrator.heading(f"The Job {first} is deleted, and {second} starts whole")
    await stage.delete("/apis/batch/v1/jobs", first)
    await stage.until(
        f"all pods of {second} run",
        lambda: (
            sorted(_running_whole(stage, size)) == [0, size]
            and stage.phases(second) == ["Running"] * size
        ),
        seconds=_STEP_SECONDS,
    )
    await stage.delete("/apis/batch/v1/jobs", second)
    await stage.until(
        "both Jobs' pods are gone, and no job is left in Slurm",
        lambda: not stage.pods.values() and not stage.live_jobs(),
        seconds=_STEP_SECONDS,
    )


def _running_whole(stage: Stage, size: int) -> list[int]:
    """How many pods of each gang have a Node. Raises DemoError if both have some: then each may
    wait for ever for what the other holds.
    """
    found = [len(stage.placed(name)) for name in _GANGS]
    if all(found) or max(found) > size:
        names = " and ".join(_GANGS)
        raise DemoError(f"{names} hold nodes at the same time: {found[0]} and {found[1]} pods run")
    return found


_REASON: Final = "pending: Resources"


def _is_running(stage: Stage, job_id: int) -> bool:
    state = stage.jobs.get(job_id)
    return state is not None and state.base is BaseState.RUNNING


def _deployment() -> dict[str, Any]:
    labels = {"app": "trainer"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "trainer"},
        "spec": {
            "replicas": _REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels, "annotations": {"sandbox/stop-seconds": "1"}},
                "spec": _pod_spec(),
            },
        },
    }


def _batch_pod(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {"sandbox/run-seconds": str(_BATCH_SECONDS)},
        },
        "spec": _pod_spec() | {"restartPolicy": "Never"},
    }


def _gang_job(name: str, size: int) -> dict[str, Any]:
    """A batch Job whose pods take all GPUs of a node each."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "parallelism": size,
            "completions": size,
            "template": {
                "spec": _pod_spec(gpus=SHAPE.gpus_per_node) | {"restartPolicy": "Never"},
            },
        },
    }


def _pod_spec(*, gpus: int = _GPUS) -> dict[str, Any]:
    resources = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": str(gpus)}
    container = {
        "name": "main",
        "image": "busybox",
        "resources": {"requests": resources, "limits": resources},
    }
    return {
        "schedulerName": SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
    }


def _native_job() -> JobSubmission:
    return JobSubmission(
        name="simulation",
        external=False,
        script="#!/bin/sh\nsleep 3600\n",
        admin_comment="",
        cpus=SHAPE.cpus_per_node // 2,
        memory_mib=SHAPE.memory_mib // 4,
        gres=f"gres/gpu:{SHAPE.gpus_per_node}",
        partition=Sandbox.high_partition,
        singleton=False,
    )
