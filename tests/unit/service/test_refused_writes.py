"""The API server refuses a binding or a status patch: its words are said, and no node is kept."""

from __future__ import annotations

import asyncio

import pytest

from annotations import PREFIX
from scheduler.core.annotation_size import LIMIT
from scheduler.core.naming import JOB_ID
from scheduler.core.refused_bind import ALLOCATION_KEPT_SECONDS
from scheduler.kube.errors import KubeInterrupted
from slurmapi import BaseState

# An hour of virtual time takes 12 s of CPU, and more where the cores have other work.
pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]
UID = "uid-0"
WORDS = "422 Invalid: ValidatingAdmissionPolicy 'no-night-shift' denied request: not at night"
_A_PASS = 1.0


async def allocated(slurm, kube) -> int:
    """A pod whose job has just started."""
    kube.create(UID)
    await asyncio.sleep(5)
    (job_id,) = map(int, slurm.jobs)
    slurm.start(job_id)
    await asyncio.sleep(_A_PASS)
    return job_id


async def started(slurm, seconds: float) -> None:
    """Slurm starts whatever may start, for so long."""
    for _ in range(int(seconds)):
        for job_id in tuple(slurm.jobs):
            if slurm.may_start(job_id):
                slurm.start(job_id)
        await asyncio.sleep(1)


async def test_refused_binding_is_said_at_once_in_the_servers_words(slurm, kube, service):
    kube.refuses["bind"] = WORDS
    service.start()
    await allocated(slurm, kube)
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.reason == "BindRefused"
    assert WORDS in condition.message
    assert len(condition.message.encode()) <= 1024
    assert [it.message for it in service.recorder.events if it.reason == "BindRefused"] == [
        condition.message
    ]


async def test_allocation_of_a_refused_binding_is_given_back_after_a_minute(slurm, kube, service):
    kube.refuses["bind"] = WORDS
    service.start()
    job_id = await allocated(slurm, kube)
    await asyncio.sleep(ALLOCATION_KEPT_SECONDS - 5)
    assert slurm.live(job_id)
    await asyncio.sleep(10)
    assert not slurm.live(job_id)
    assert JOB_ID not in kube.pods[UID].metadata.annotations
    assert kube.deleted == []


async def test_refused_pod_holds_a_node_ever_more_seldom(slurm, kube, service):
    kube.refuses["bind"] = WORDS
    service.start()
    await allocated(slurm, kube)
    held = 0
    for _ in range(3600):
        await started(slurm, 1)
        held += any(job.state.base is BaseState.RUNNING for job in slurm.jobs.values())
    assert 8 <= slurm.calls["submit"] <= 20
    assert held < ALLOCATION_KEPT_SECONDS + 3 * slurm.calls["submit"]


async def test_pod_is_bound_once_the_policy_lets_it_through(slurm, kube, service):
    kube.refuses["bind"] = WORDS
    service.start()
    await allocated(slurm, kube)
    await started(slurm, 300)
    kube.refuses.clear()
    await started(slurm, 400)
    assert [uid for uid, _ in kube.bindings] == [UID]


async def test_pod_whose_status_cannot_be_written_is_bound_and_an_event_says_so(
    slurm, kube, service
):
    kube.refuses["patch"] = WORDS
    service.start()
    await allocated(slurm, kube)
    assert kube.bindings == [(UID, "n1")]
    messages = [it.message for it in service.recorder.events if it.reason == "StatusRefused"]
    assert messages
    assert all(WORDS in message for message in messages)
    assert JOB_ID in kube.pods[UID].metadata.annotations, "the binding brought it along"


async def test_node_is_given_back_though_nothing_can_be_written_on_the_pod(slurm, kube, service):
    kube.refuses |= {"bind": WORDS, "patch": WORDS}
    service.start()
    job_id = await allocated(slurm, kube)
    await asyncio.sleep(ALLOCATION_KEPT_SECONDS + 10)
    assert not slurm.live(job_id)
    await started(slurm, 120)
    assert kube.deleted == []
    assert {"BindRefused", "StatusRefused"} <= set(service.recorder.reasons(UID))


async def test_pod_whose_disruption_cannot_be_written_goes_nevertheless(slurm, kube, service):
    service.start()
    job_id = await allocated(slurm, kube)
    kube.refuses["patch"] = WORDS
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(10)
    assert kube.deleted == [UID]


async def test_pod_whose_disruption_is_never_answered_goes_after_a_while(slurm, kube, service):
    """A webhook hangs for longer than a write may take."""
    service.start()
    job_id = await allocated(slurm, kube)
    kube.fail["patch"].extend(KubeInterrupted("no answer") for _ in range(1000))
    slurm.end(job_id, BaseState.PREEMPTED)
    await asyncio.sleep(25)
    assert kube.deleted == []
    await asyncio.sleep(60)
    assert kube.deleted == [UID]


async def test_refused_status_is_tried_again_ever_more_seldom(slurm, kube, service):
    kube.refuses["patch"] = WORDS
    tries = 0
    patch = kube.patch_pod_status

    async def counted(*args, **kwargs):
        nonlocal tries
        tries += 1
        return await patch(*args, **kwargs)

    kube.patch_pod_status = counted
    service.start()
    kube.create(UID)
    await asyncio.sleep(3600)
    assert tries <= 25


async def test_annotations_that_leave_no_room_are_refused_in_words(slurm, kube, service):
    """A binding adds ours unchecked, and no status could be written ever after (measured)."""
    kube.create(UID, annotations={"example.com/notes": "a" * (LIMIT - 100)})
    service.start()
    await asyncio.sleep(10)
    assert slurm.calls["submit"] == 0
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.reason == "SchedulingFailed"
    assert "metadata.annotations" in condition.message
    assert len(condition.message.encode()) <= 1024


async def test_waiting_pod_whose_annotations_come_to_leave_no_room_gives_its_job_back(
    slurm, kube, service
):
    service.start()
    kube.create(UID)
    await asyncio.sleep(5)
    kube.edit(UID, {"example.com/notes": "é" * (LIMIT // 2 - 100)})
    await asyncio.sleep(30)
    assert not any(slurm.live(job_id) for job_id in slurm.jobs)
    kube.edit(UID, {"example.com/notes": None})
    await started(slurm, 60)
    assert [uid for uid, _ in kube.bindings] == [UID]


async def test_problems_of_a_pod_are_written_once_the_server_takes_them(slurm, kube, service):
    """Nothing else brings a refused pod another pass."""
    kube.refuses["patch"] = WORDS
    service.start()
    kube.create(UID, annotations={f"{PREFIX}time-limit": "soon"})
    await asyncio.sleep(3)
    assert kube.condition_of(UID) is None
    assert kube.asked["patch"] == 1
    del kube.refuses["patch"]
    await asyncio.sleep(10)
    condition = kube.condition_of(UID)
    assert condition is not None
    assert condition.reason == "SchedulingFailed"
