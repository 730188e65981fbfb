"""A job_submit plugin refuses one pod for ever, or removes the tag of its job. Other pods are not
affected, the pod says why, and no job is left.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.support import pods
from tests.support.cluster import Cluster
from tests.support.job_submit import REFUSED, ROBBED
from tests.support.kube import Object
from tests.support.slurm import Record
from tests.support.world import World

pytestmark = pytest.mark.live_on("26.05")
_OUTCOMES = ("busy", "interrupted", "unreachable")


async def test_refused_pod_holds_up_no_other_and_says_why(world: World, cluster: Cluster) -> None:
    async with cluster.job_submit_plugin():
        before = _unavailable(world)
        await world.create("refused", slurm={"comment": REFUSED})
        await _told(world)
        for number in range(10):
            await world.create(f"good-{number}", cpus="1")
        await asyncio.gather(*(world.running(f"good-{number}") for number in range(10)))
        await _told(world)
        event = await world.event("SlurmRejected", name="refused")
        assert "job_submit plugin" in event["message"]
        assert _unavailable(world) == before, "a refusal of one job is no outage"


async def test_job_whose_tag_is_taken_is_ended_and_its_pod_says_why(
    world: World, cluster: Cluster
) -> None:
    async with cluster.job_submit_plugin():
        await world.create("robbed", slurm={"comment": ROBBED})
        await world.create("good")
        await world.pod_that(
            "is told that the tag was taken",
            lambda it: "its AdminComment" in _rejection(it),
            name="robbed",
        )
        await world.running("good")
        event = await world.event("SlurmRejected", name="robbed")
        assert "JobSubmitPlugins" in event["message"]
        jobs = await _jobs_of(world, "robbed")
        assert jobs, "the plugin takes the job"
        assert [it for it in jobs if it.live or it.tag] == []
        assert len(jobs) <= 2, "the next one is asked for after a minute"
        await world.delete("robbed")
        await world.gone("robbed")
    # The auditor does not recognise a job without a tag as ours.
    touched = {f"job {it.job_id}" for it in jobs}
    found = await world.audit.violations()
    assert {(it.rule, it.subject) for it in found} <= {("I8", job) for job in touched}
    world.audit.accepted["I8"] = "the scheduler ends the jobs of its own submits"


async def _jobs_of(world: World, pod: str) -> list[Record]:
    """All jobs with the name of that pod, whatever their tag is."""
    name = f"{world.namespace}.{pod}."
    return [it for it in await world.slurm.jobs() if it.name.startswith(name)]


def _rejection(pod: Object) -> str:
    return pods.why(pod, "SlurmRejected")


def _unavailable(world: World) -> float:
    """How many submits failed for a reason that concerns all pods."""
    name = "slurm_pod_scheduler_actions_total"
    return sum(
        world.scheduler.metric(name, {"action": "submit", "outcome": outcome})
        for outcome in _OUTCOMES
    )


async def _told(world: World) -> None:
    pod = await world.pod_that(
        "is told of the plugin",
        lambda it: bool(_rejection(it)),
        name="refused",
    )
    assert "job_submit plugin" in _rejection(pod)
    assert "Unspecified error" in _rejection(pod)
