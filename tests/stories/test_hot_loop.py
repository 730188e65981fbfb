"""A Deployment replaces each pod that ends at once, so the pods' jobs come later and later."""

from __future__ import annotations

import time
from typing import Final

import pytest

from tests.support import pods
from tests.support.kube import Object
from tests.support.sandbox import SandboxCluster
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")

_REASON = "ControllerBackOff"
# The shortest second pause: it is nominally 10 s.
_SECOND: Final = 7.5


async def test_pods_of_a_deployment_whose_jobs_are_always_ended_get_theirs_later(
    world: World,
) -> None:
    await world.kube.create("deployments", _deployment(), namespace=world.namespace)
    assert not _waits(await _end(world)), "one end is no loop"
    began = time.monotonic()
    pod = await _end(world)
    assert _waits(pod)
    assert pods.annotation(pod, pods.JOB_ID) is None
    if isinstance(world.cluster, SandboxCluster):
        return  # other tests check the rest in virtual time
    await world.submitted(pod["metadata"]["name"])
    assert time.monotonic() - began >= _SECOND


async def _end(world: World) -> Object:
    """End the running pod's job. Returns its successor as it first had a job or said why not."""
    pod = await _one(world, phase="Running")
    job = await world.placeholder(pod)
    await world.slurm.cancel(job.job_id)
    after = await _one(world, but=pod["metadata"]["uid"])
    told = await _job_or_reason(world, after["metadata"]["name"])
    if waits := _waits(told):
        assert "of ReplicaSet looping-" in waits
        assert f"PlaceholderCancelled: Slurm job {job.job_id} was cancelled" in waits
    return told


def _waits(pod: Object) -> str:
    """The message of a pod that is held back for this reason; empty for other pods."""
    return pods.why(pod, _REASON)


async def _one(world: World, *, phase: str = "", but: str = "") -> Object:
    """The only pod that is not being deleted."""

    async def look() -> Object | None:
        found = await world.kube.items("pods", namespace=world.namespace)
        stay = [it for it in found if not pods.leaving(it) and it["metadata"]["uid"] != but]
        fits = [it for it in stay if not phase or pods.phase(it) == phase]
        return fits[0] if len(fits) == len(stay) == 1 else None

    return await world.until(f"one pod is {phase or 'there'}", look)


async def _job_or_reason(world: World, name: str) -> Object:
    """The first state of the pod that shows one of the two: it may have a job soon after."""

    async def look() -> Object | None:
        states = (seen.pod for seen in world.history.of(name))
        told = (it for it in states if _waits(it) or pods.annotation(it, pods.JOB_ID))
        return next(told, None)

    return await world.until("the pod has a job, or says why not", look)


def _deployment() -> Object:
    template = pods.pod("looping", grace=1)
    del template["metadata"]["name"]
    selector = {"matchLabels": {"app": "looping"}}
    spec = {"replicas": 1, "selector": selector, "template": template}
    return {"metadata": {"name": "looping"}, "spec": spec}
