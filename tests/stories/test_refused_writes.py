"""Story: the API server refuses the scheduler's writes on a pod, and the pod's Events say so."""

from __future__ import annotations

import pytest

from tests.support import pods
from tests.support.refusing import denying
from tests.support.world import World

WORDS = "no pods at night"


@pytest.mark.live_on("26.05")
async def test_refused_binding_is_said_on_the_pod_and_tried_again(world: World) -> None:
    async with denying(world.kube.answer, world.namespace, "pods/binding", message=WORDS):
        await world.create()
        message = await world.message_with("refuses to bind", WORDS)
        event = await world.event("BindRefused")
        pod = await world.submitted()
    assert WORDS in event["message"]
    assert len(message.encode()) <= 1024
    bound = await world.running()
    assert pods.annotation(bound, pods.JOB_ID) == str(pod.job_id)


@pytest.mark.slow
@pytest.mark.live_on("neither")
async def test_node_of_a_pod_that_cannot_be_bound_is_given_back(world: World) -> None:
    async with denying(world.kube.answer, world.namespace, "pods/binding", message=WORDS):
        await world.create()
        job = await world.submitted()
        await world.message_with("refuses to bind", WORDS)

        async def given_back() -> bool:
            record = await world.slurm.job(job.job_id)
            return record is not None and not record.live

        await world.until("the job is given back", given_back, seconds=90)
    second = await world.running()
    assert pods.annotation(second, pods.JOB_ID) != str(job.job_id)


@pytest.mark.live_on("26.05")
async def test_pod_whose_status_cannot_be_written_is_bound_and_an_event_says_why(
    world: World,
) -> None:
    """Nothing is written on a pod that starts at once, so this one has to wait. The kubelet's
    writes are denied too, so the story cannot wait until the pod runs.
    """
    filler = await world.fill()
    async with denying(world.kube.answer, world.namespace, "pods/status", message=WORDS):
        await world.create()
        event = await world.event("StatusRefused")
        await world.end_native(filler)
        bound = await world.bound()
    assert WORDS in event["message"]
    assert pods.annotation(bound, pods.JOB_ID) is not None, "the binding brought it along"


@pytest.mark.live_on("26.05")
async def test_annotations_that_fill_the_pod_are_refused_in_words(world: World) -> None:
    await world.create(annotations={"example.com/notes": "a" * (256 * 1024 - 100)})
    message = await world.message_with("metadata.annotations", "at most")
    assert len(message.encode()) <= 1024
    assert await world.slurm.live_placeholders(world.namespace) == []
