"""Story 4: a pod that cannot be served says why, and the scheduler goes on with others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support import pods
from tests.support.world import World


@dataclass(frozen=True)
class Wrong:
    """A pod that cannot be served, and the words that its messages must contain."""

    pod: dict[str, Any] = field(default_factory=dict)
    words: tuple[str, ...] = ()


_INVALID = {
    "no cpu request": Wrong({"cpus": None}, ("cpu",)),
    "no memory request": Wrong({"memory": None}, ("memory",)),
    "grace of 25 s": Wrong({"grace": 25}, ("terminationGracePeriodSeconds", "25", "24")),
    "timeout in words": Wrong({"slurm": {"timeout": "soon"}}, ("timeout", "soon", "seconds")),
    "unknown annotation": Wrong({"slurm": {"partion": "x"}}, ("partion", "partition")),
    "priority in words": Wrong({"slurm": {"priority": "high"}}, ("priority", "high", "number")),
}
_REJECTED = {
    "no such partition": Wrong({"slurm": {"partition": "nowhere"}}, ("nowhere",)),
    "no such node": Wrong({"slurm": {"required-nodes": "nowhere"}}, ("required-nodes", "nowhere")),
    "no such feature": Wrong({"slurm": {"features": "nothing"}}, ("features", "nothing")),
}
_TOO_LARGE = {
    "more GPUs than any node": Wrong({"gpus": 1000}, ("the largest has", "nvidia.com/gpu", "1000")),
    "more CPUs than any node": Wrong({"cpus": "60000"}, ("the largest has", "CPUs", "60000")),
}


@pytest.mark.anywhere
@pytest.mark.parametrize("wrong", _INVALID.values(), ids=_INVALID.keys())
@pytest.mark.live_on("neither")
async def test_invalid_pod_is_told_and_not_submitted(world: World, wrong: Wrong) -> None:
    await world.create(**wrong.pod)
    await _told(world, "SchedulingFailed", wrong.words)
    await _goes_on(world)
    assert not [it for it in await world.slurm.placeholders(world.namespace) if "train" in it.name]


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_all_problems_are_told_at_once(world: World) -> None:
    await world.create(cpus=None, grace=600, slurm={"timeout": "-3"})
    await _told(world, "SchedulingFailed", ("cpu", "600", "timeout", "-3"))


@pytest.mark.parametrize("wrong", _REJECTED.values(), ids=_REJECTED.keys())
async def test_pod_refused_by_slurm_is_told_and_leaves_nothing(world: World, wrong: Wrong) -> None:
    await world.create(**wrong.pod)
    await _told(world, "SlurmRejected", wrong.words)
    await _goes_on(world)
    live = await world.slurm.live_placeholders(world.namespace)
    assert not [it for it in live if ".train." in it.name]


@pytest.mark.anywhere
@pytest.mark.parametrize("wrong", _TOO_LARGE.values(), ids=_TOO_LARGE.keys())
@pytest.mark.live_on("26.05")
async def test_pod_that_is_larger_than_any_node_is_told_and_not_submitted(
    world: World, wrong: Wrong
) -> None:
    """26.05 would accept such a job and leave it pending for ever; 24.11 would refuse it."""
    await world.create(**wrong.pod)
    await _told(world, "NoNodeFits", wrong.words)
    await _goes_on(world)
    assert not [it for it in await world.slurm.placeholders(world.namespace) if "train" in it.name]


@pytest.mark.anywhere
@pytest.mark.live_on("26.05")
async def test_waiting_pod_edited_into_a_wrong_one_gives_its_job_back(world: World) -> None:
    filler = await world.fill()
    await world.create()
    job = await world.placeholder(await world.waiting())

    await world.edit(timeout="soon")
    await _told(world, "SchedulingFailed", ("timeout", "soon"))
    await world.job_ended(job.job_id, state="CANCELLED")

    await world.edit(timeout="600")
    await world.end_native(filler)
    await world.running()


async def _told(world: World, reason: str, words: tuple[str, ...]) -> None:
    """Check that the condition and exactly one Event have the reason and all the words."""
    pod = await world.pod_that(f"is told {reason}", lambda it: bool(pods.why(it, reason)))
    message = pods.why(pod, reason)
    assert not [word for word in words if word not in message], message
    event = await world.event(reason)
    assert not [word for word in words if word not in event["message"]], event
    assert event["type"] == "Warning"
    events = await world.kube.events_of("train", namespace=world.namespace)
    assert len([it for it in events if it["reason"] == reason]) == 1


async def _goes_on(world: World) -> None:
    await world.create("healthy")
    await world.running("healthy")
