"""Edits in a loop, in virtual time: what they cost Slurm is bounded, and others do not wait."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from annotations import PREFIX
from scheduler.core.event_reasons import Reason
from scheduler.execute.edit_pace import (
    ALL_EDITS,
    NAMESPACE_EDITS,
    POD_EDITS,
    POLICY_EDITS,
    EditPace,
)
from scheduler.execute.tell import Teller
from scheduler.observe.metrics import Metrics
from scheduler.observe.wake import WakeCause
from scheduler.state.units import Unit
from slurmapi import SlurmInvalid
from tests.unit.policy.policies import policy
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]
UID = "01234567-89ab"
OTHER = "98765432-10fe"
PODS = 300
ALL_LOOKED_AT_SECONDS = PODS / 4 + 10
QUEUE_ADDS = "workqueue_adds_total"
STORM_SECONDS = 60.0
EDITS_A_SECOND = 20
MOST_EDITS = POD_EDITS[0] + STORM_SECONDS / POD_EDITS[1] + 1


def called(slurm: TinySlurm) -> int:
    """Calls that are about one pod alone; those that all share come at their own pace."""
    return sum(slurm.calls[it] for it in ("submit", "update", "cancel"))


async def storm(kube: TinyKube, *keys: str) -> None:
    """The pod is edited again and again; each time it asks for something else."""
    for number in range(int(STORM_SECONDS * EDITS_A_SECOND)):
        kube.edit(UID, {PREFIX + key: f"{key}-{number}" for key in keys})
        await asyncio.sleep(1 / EDITS_A_SECOND)


async def test_edits_of_a_pending_job_cost_slurm_a_bounded_number_of_calls(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.create(UID, annotations={PREFIX + "comment": "before"})
    service.start()
    await asyncio.sleep(5)
    before = called(slurm)
    await storm(kube, "comment", "account", "qos")
    # Two tags, the fields, and a trial with its end.
    assert called(slurm) - before <= 6 * MOST_EDITS
    assert "EditedTooOften" in service.recorder.reasons(UID)
    assert len([it for it in service.recorder.reasons(UID) if it == "EditedTooOften"]) == 1
    messages = [it.message for _, patch in kube.patches for it in patch]
    assert any("the next of this pod in" in message for message in messages)
    assert len(messages) < STORM_SECONDS
    assert service.metric("edits_held_total", scope="pod")
    await asyncio.sleep(POD_EDITS[1] + 5)
    last = int(STORM_SECONDS * EDITS_A_SECOND) - 1
    assert slurm.jobs[1].comment == f"comment-{last}", "what was asked for last is not lost"


async def test_edits_of_what_slurm_refuses_make_few_submits(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    slurm.fail["submit"].extend(
        SlurmInvalid("Invalid account", error_number=2045, status=500) for _ in range(10_000)
    )
    kube.create(UID, annotations={PREFIX + "account": "none"})
    service.start()
    await asyncio.sleep(2)
    await storm(kube, "account")
    assert slurm.calls["submit"] <= MOST_EDITS + 2


async def test_edit_of_another_pod_does_not_wait(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.create(UID)
    service.start()
    await asyncio.sleep(3)
    kube.create(OTHER, name="other")
    await asyncio.sleep(3)
    task = asyncio.ensure_future(storm(kube, "comment"))
    await asyncio.sleep(STORM_SECONDS / 2)
    kube.edit(OTHER, {PREFIX + "comment": "calm"})
    await asyncio.sleep(2)
    assert slurm.jobs[2].comment == "calm"
    await task


class Deaf:
    """Has nobody to tell."""

    def warn(self, unit: Unit, reason: Reason, message: str) -> None:
        pass

    async def tell_waiting(self, unit: Unit, reason: Reason, message: str) -> None:
        pass


async def test_edits_of_a_namespace_and_of_all_have_a_pace() -> None:
    """Each of another pod, so that none has used up its own."""
    now = 0.0
    pace = EditPace(cast("Teller", Deaf()), version=lambda: 0, metrics=Metrics(), clock=lambda: now)

    async def granted(namespace: str) -> int:
        pods = [Unit(f"{namespace}-{now}-{it}", namespace, "n", seen_at=0.0) for it in range(300)]
        for pod in pods:
            pace.settle(pod)
        waits = [await pace.pause(pod) for pod in pods]
        for pod in pods:
            pace.forget(pod)
        return waits.count(0.0)

    assert [await granted(it) for it in ("a", "b", "c")] == [
        NAMESPACE_EDITS[0],
        NAMESPACE_EDITS[0],
        ALL_EDITS[0] - 2 * NAMESPACE_EDITS[0],
    ]
    now = 10.0
    assert await granted("a") == 10 / NAMESPACE_EDITS[1]
    assert await granted("c") == 10 / ALL_EDITS[1] - 10 / NAMESPACE_EDITS[1]


async def test_namespaces_take_turns_in_the_budgets_that_all_share() -> None:
    """Changes that a new process finds, and edits beyond what three namespaces may make at once:
    2500 of one namespace kept an edit of another back for 200 s.
    """
    now = 0.0
    pace = EditPace(cast("Teller", Deaf()), version=lambda: 0, metrics=Metrics(), clock=lambda: now)

    async def waits(namespace: str, count: int, *, found_at_start: bool) -> list[float]:
        pods = [Unit(f"{namespace}-{it}", namespace, "n", seen_at=0.0) for it in range(count)]
        for pod in () if found_at_start else pods:
            pace.settle(pod)
        return [await pace.pause(pod) for pod in pods]

    assert max(await waits("a", 2500, found_at_start=True)) > 200
    (wait,) = await waits("b", 1, found_at_start=True)
    assert wait <= 2 * POLICY_EDITS[1] + 1e-6
    for namespace in "cde":
        await waits(namespace, 190, found_at_start=False)
    (wait,) = await waits("b", 1, found_at_start=False)
    assert 0 < wait <= 4 * ALL_EDITS[1] + 1e-6


async def test_edit_after_a_restart_does_not_wait_for_those_of_another_namespace(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    pods = 400
    kube.create(UID, namespace="calm")
    for number in range(pods):
        kube.create(f"pod-{number}", name=f"pod-{number}")
    first = Service(slurm, kube)
    first.start()
    await asyncio.sleep(pods / 4 + 10)
    await first.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(pods / 4 + 10)
    for number in range(pods):
        kube.edit(f"pod-{number}", {PREFIX + "comment": "edited"})
    await asyncio.sleep(5)
    kube.edit(UID, {PREFIX + "comment": "calm"})
    await asyncio.sleep(1.5)
    comments = [it.comment for it in slurm.jobs.values()]
    assert comments.count("calm") == 1
    assert comments.count("edited") < pods, "the other namespace still waits"
    await asyncio.sleep((pods - POLICY_EDITS[0]) * POLICY_EDITS[1])
    assert {it.comment for it in slurm.jobs.values()} == {"calm", "edited"}
    await second.kill()


def test_one_namespace_leaves_a_part_of_all_to_others() -> None:
    burst, seconds = NAMESPACE_EDITS
    assert burst < ALL_EDITS[0]
    assert 1 / seconds < 1 / ALL_EDITS[1]


async def test_another_policy_reaches_all_pods_at_its_own_pace_and_charges_no_author(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    for number in range(PODS):
        kube.create(f"pod-{number}", name=f"pod-{number}")
    service.start()
    await asyncio.sleep(ALL_LOOKED_AT_SECONDS)
    assert slurm.calls["submit"] == PODS
    before = service.metric(QUEUE_ADDS)
    service.rulebook.take(policy("rules: [{name: r, forced: {comment: from the site}}]"))
    for uid in kube.pods:
        service.queue.add(uid, WakeCause.WATCH)
    await asyncio.sleep(5)
    kube.edit("pod-0", {PREFIX + "nice": "2"})
    await asyncio.sleep(2)
    assert slurm.jobs[1].nice == 2, "the namespace has its own budget still"
    condition = kube.condition_of(f"pod-{PODS - 1}")
    assert condition is not None
    assert condition.reason == "PolicyChanged"
    await asyncio.sleep((PODS - POLICY_EDITS[0]) * POLICY_EDITS[1])
    assert {job.comment for job in slurm.jobs.values()} == {"from the site"}
    after = service.metric(QUEUE_ADDS)
    assert after - before < 20 * PODS, "each waits for its own turn"
    assert "EditedTooOften" not in service.recorder.reasons()


async def test_author_who_edits_after_another_policy_has_his_own_budget(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.create(UID)
    service.start()
    await asyncio.sleep(5)
    service.rulebook.take(policy("rules: [{name: r, forced: {nice: 7}}]"))
    before = called(slurm)
    await storm(kube, "comment")
    assert called(slurm) - before <= 6 * (MOST_EDITS + 1)
    assert "EditedTooOften" in service.recorder.reasons(UID)


async def test_edits_of_all_pods_of_a_namespace_come_one_by_one(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    for number in range(PODS):
        kube.create(f"pod-{number}", name=f"pod-{number}")
    service.start()
    await asyncio.sleep(ALL_LOOKED_AT_SECONDS)
    before = service.metric(QUEUE_ADDS)
    for uid in kube.pods:
        kube.edit(uid, {PREFIX + "comment": "edited"})
    await asyncio.sleep(30)
    after = service.metric(QUEUE_ADDS)
    assert after - before < 20 * PODS, "each waits for its own turn"
    edited = [it for it in slurm.jobs.values() if it.comment == "edited"]
    assert len(edited) <= NAMESPACE_EDITS[0] + 32 / NAMESPACE_EDITS[1]
    await asyncio.sleep((PODS - NAMESPACE_EDITS[0]) * NAMESPACE_EDITS[1])
    assert {it.comment for it in slurm.jobs.values()} == {"edited"}
