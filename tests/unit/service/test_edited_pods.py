"""The whole service and edits of pods that wait: carried out once, refused ones not in a loop."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from annotations import PREFIX
from scheduler.core.naming import ENDS_AT, JOB_ID
from scheduler.core.owner_tag import read_tag
from slurmapi import BaseState, SlurmInvalid, SlurmUnreachable
from tests.unit.service.tiny_kube import TinyKube
from tests.unit.service.tiny_service import RecordedEvent, Service
from tests.unit.service.tiny_slurm import TinySlurm

pytestmark = pytest.mark.looptime
UID = "01234567-89ab"


def annotated(**values: str | None) -> dict[str, str | None]:
    return {PREFIX + key: value for key, value in values.items()}


async def waits(service: Service, kube: TinyKube, **values: str) -> None:
    kube.create(UID, annotations={PREFIX + key: value for key, value in values.items()})
    service.start()
    await asyncio.sleep(5)


def events(service: Service, reason: str) -> list[RecordedEvent]:
    return [event for event in service.recorder.events if event.reason == reason]


async def test_edit_is_carried_out_once(service: Service, slurm: TinySlurm, kube: TinyKube) -> None:
    await waits(service, kube, comment="before")
    kube.edit(UID, annotated(comment="after", timeout="600"))
    await asyncio.sleep(100)
    assert (slurm.jobs[1].comment, slurm.jobs[1].time_limit_minutes) == ("after", 10)
    assert slurm.calls["update"] == 3, "the tag, the fields, and the tag"
    assert slurm.calls["submit"] == 1
    (event,) = events(service, "PlaceholderUpdated")
    assert "comment is 'after'" in event.message
    assert "timeout is 10" in event.message


async def test_operator_is_left_what_he_changes_but_the_excluded_nodes(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, comment="before")
    slurm.jobs[1] = replace(slurm.jobs[1], comment="his", excluded_nodes=("n2",))
    await asyncio.sleep(60)
    assert (slurm.jobs[1].comment, slurm.jobs[1].excluded_nodes) == ("his", ())


async def test_next_process_does_not_repeat_an_edit(slurm: TinySlurm, kube: TinyKube) -> None:
    service = Service(slurm, kube)
    await waits(service, kube, comment="before")
    kube.edit(UID, annotated(comment="after"))
    await asyncio.sleep(5)
    await service.kill()
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(60)
    assert slurm.calls["update"] == 3
    kube.edit(UID, annotated(comment="later"))
    await asyncio.sleep(5)
    assert slurm.jobs[1].comment == "later"
    await second.kill()


async def test_edit_that_is_taken_back_while_no_process_runs_is_taken_back_in_slurm(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    service = Service(slurm, kube)
    await waits(service, kube, comment="before")
    kube.edit(UID, annotated(comment="after"))
    while slurm.jobs[1].comment != "after":  # noqa: ASYNC110 - the very moment counts
        await asyncio.sleep(0.001)
    await service.kill()
    kube.edit(UID, annotated(comment="before"))
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(5)
    assert slurm.jobs[1].comment == "before"
    await second.kill()


async def test_refused_edit_is_tried_again_with_pauses_and_told(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, partition="main")
    slurm.refuses = {"partition"}
    kube.edit(UID, annotated(partition="nowhere", comment="taken"))
    await asyncio.sleep(20)
    assert slurm.jobs[1].comment == "taken"
    assert slurm.calls["update"] <= 5
    condition = kube.condition_of(UID)
    assert condition is not None
    assert "partition 'nowhere' was not accepted: Invalid partition" in condition.message
    await asyncio.sleep(400)
    assert slurm.calls["update"] <= 10
    assert len(events(service, "UpdateRefused")) <= 8

    slurm.refuses = set()
    await asyncio.sleep(260)
    assert slurm.jobs[1].partition == "nowhere"
    condition = kube.condition_of(UID)
    assert condition is not None
    assert "not accepted" not in condition.message


async def test_correction_of_a_refused_edit_waits_out_no_pause(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, partition="main")
    slurm.refuses = {"partition"}
    kube.edit(UID, annotated(partition="nowhere"))
    await asyncio.sleep(100)
    slurm.refuses = set()
    kube.edit(UID, annotated(partition="high"))
    await asyncio.sleep(2)
    assert slurm.jobs[1].partition == "high"


async def test_account_and_qos_are_judged_by_a_submit_before_they_are_changed(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube)
    kube.edit(UID, annotated(account="physics", qos="high"))
    await asyncio.sleep(5)
    assert (slurm.jobs[1].account, slurm.jobs[1].qos) == ("physics", "high")
    trial = slurm.submissions[2]
    assert (trial.account, trial.qos, trial.held, trial.priority) == ("physics", "high", True, None)
    tag = read_tag(trial.admin_comment)
    assert tag is not None
    assert UID not in tag.uids
    assert trial.name != slurm.jobs[1].name
    assert slurm.live(1)
    assert not slurm.live(2)


async def test_account_that_is_taken_away_becomes_what_a_submit_makes_of_it(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, account="physics", qos="high")
    slurm.defaults = {"account": "root", "qos": "normal"}
    kube.edit(UID, annotated(account=None))
    await asyncio.sleep(5)
    assert (slurm.jobs[1].account, slurm.jobs[1].qos) == ("root", "high")
    kube.edit(UID, annotated(qos=None))
    await asyncio.sleep(5)
    assert (slurm.jobs[1].account, slurm.jobs[1].qos) == ("root", "normal")
    assert [job_id for job_id in slurm.jobs if slurm.live(job_id)] == [1]


async def test_account_that_a_submit_may_not_have_is_not_changed_either(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, account="physics")
    refusal = SlurmInvalid("Invalid qos specification", error_number=2066, status=500)
    slurm.fail["submit"].append(refusal)
    kube.edit(UID, annotated(qos="high", comment="after"))
    slurm.fail["submit"].append(refusal)
    await asyncio.sleep(5)
    assert (slurm.jobs[1].qos, slurm.jobs[1].comment) == ("", "after")
    (event,) = events(service, "UpdateRefused")
    assert "qos 'high' was not accepted: Invalid qos specification" in event.message
    assert list(slurm.jobs) == [1]


async def test_trial_that_is_left_over_ends_and_the_edit_is_carried_out(
    slurm: TinySlurm, kube: TinyKube
) -> None:
    service = Service(slurm, kube)
    await waits(service, kube)
    slurm.fail["job"].append(SlurmUnreachable("down"))
    slurm.fail["cancel"].append(SlurmUnreachable("down"))
    kube.edit(UID, annotated(account="physics"))
    await asyncio.sleep(0.1)
    await service.kill()
    assert slurm.live(2), "no trial was left over"
    kube.relist()
    second = Service(slurm, kube)
    second.start()
    await asyncio.sleep(60)
    assert slurm.jobs[1].account == "physics"
    assert [job_id for job_id in slurm.jobs if slurm.live(job_id)] == [1]
    await second.kill()


async def test_edit_during_an_outage_is_carried_out_after_it(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, comment="before")
    slurm.fail["update"].extend(SlurmUnreachable("down") for _ in range(5))
    kube.edit(UID, annotated(comment="after"))
    await asyncio.sleep(60)
    assert slurm.jobs[1].comment == "after"
    assert not events(service, "UpdateRefused")


async def test_job_that_starts_before_the_update_is_bound_all_the_same(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, partition="main")
    slurm.refuses = {"partition"}
    slurm.start(1)
    kube.edit(UID, annotated(partition="high"))
    await asyncio.sleep(5)
    assert kube.bindings == [(UID, "n1")]


async def test_refused_submit_is_repeated_at_once_after_a_correction(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    for _ in range(4):
        slurm.fail["submit"].append(SlurmInvalid("no such partition", error_number=2000))
    await waits(service, kube, partition="nowhere")
    await asyncio.sleep(100)
    assert slurm.calls["submit"] == 3
    slurm.fail["submit"].clear()
    kube.edit(UID, annotated(partition="main"))
    await asyncio.sleep(1)
    assert slurm.calls["submit"] == 4
    condition = kube.condition_of(UID)
    assert condition is not None
    assert "no such partition" not in condition.message
    assert kube.pods[UID].metadata.annotations[JOB_ID] == "1"


async def test_submit_of_the_same_request_waits_out_its_pause_whatever_else_is_edited(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    slurm.fail["submit"].extend(SlurmInvalid("no", error_number=2000) for _ in range(9))
    await waits(service, kube, partition="nowhere")
    for number in range(10):
        kube.edit(UID, {"example.com/note": str(number)})
        await asyncio.sleep(1)
    assert slurm.calls["submit"] == 1


async def test_end_of_the_time_is_written_with_the_binding_and_follows(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, timeout="600")
    slurm.change(1, BaseState.RUNNING, nodes=("n1",), end_time=1_795_273_200)
    await asyncio.sleep(5)
    assert kube.pods[UID].metadata.annotations[ENDS_AT] == "2026-11-21T15:00:00Z"
    patches = len(kube.patches)
    slurm.change(1, BaseState.RUNNING, nodes=("n1",), end_time=1_795_276_800)
    await asyncio.sleep(120)
    assert kube.pods[UID].metadata.annotations[ENDS_AT] == "2026-11-21T16:00:00Z"
    assert len(kube.patches) == patches + 1
    slurm.change(1, BaseState.RUNNING, nodes=("n1",), end_time=None)
    await asyncio.sleep(120)
    assert ENDS_AT not in kube.pods[UID].metadata.annotations


async def test_end_that_a_copied_manifest_brings_along_goes_where_the_job_has_none(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    kube.create(UID, annotations={ENDS_AT: "2026-11-21T15:00:00Z"})
    service.start()
    await asyncio.sleep(5)
    slurm.start(1)
    await asyncio.sleep(10)
    assert kube.bindings == [(UID, "n1")]
    assert ENDS_AT not in kube.pods[UID].metadata.annotations
    patches = len(kube.patches)
    await asyncio.sleep(700)
    assert len(kube.patches) == patches


async def test_tag_of_a_job_remembers_what_it_was_asked_for(
    service: Service, slurm: TinySlurm, kube: TinyKube
) -> None:
    await waits(service, kube, comment="before")
    found = read_tag(slurm.jobs[1].admin_comment)
    assert found is not None
    assert set(found.asked) == {"cpus", "memory_mib", "comment"}
