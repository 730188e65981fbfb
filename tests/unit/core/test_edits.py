"""What an edit of a waiting pod comes to: an update, a new job, or nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import fields, replace

from annotations import JobRequest, Sharing, Switches
from scheduler.core.actions import Again, Cancel, DropJob, NoteEnd, Tell, Update
from scheduler.core.decide import decide
from scheduler.core.edits import IN_PLACE, Edit, asked_after, differences, digests, edit_of
from scheduler.core.facts import PodStage
from scheduler.core.intervals import SLOW_LOOK_SECONDS
from scheduler.core.owner_tag import read_tag
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState
from tests.unit.core.things import JOB, NOW, REQUEST, facts, pod, record, tag, tracked

WAITING = pod(PodStage.WAITING)
BEFORE = replace(REQUEST, partition="main", comment="before", time_limit_minutes=5)


_TWO = ("constraints", "excluded_nodes")


def pending(asked: JobRequest | None = BEFORE, **more: Any) -> TaggedJob:
    given: dict[str, Any] = {"nodes": (), "admin_comment": tag(asked=asked)}
    return record(BaseState.PENDING, **(given | more))


def test_digests_name_what_is_not_at_its_default() -> None:
    found = digests(BEFORE)
    assert set(found) >= {"cpus", "memory_mib", "partition", "comment", "time_limit_minutes"}
    assert "qos" not in found
    assert all(len(digest) == 8 for digest in found.values())
    assert digests(replace(BEFORE)) == found
    assert digests(replace(BEFORE, comment="after"))["comment"] != found["comment"]


def test_digests_are_those_of_former_versions() -> None:
    """Another digest for the same value would have every pending job given back by an upgrade."""
    request = JobRequest(
        cpus=4,
        memory_mib=1024,
        gres="gres/gpu:2",
        exclusive=Sharing.USER,
        required_nodes=("n1", "n2"),
        switches=Switches(2, 5),
        hold=True,
    )
    assert digests(request) == {
        "cpus": "d192211f",
        "memory_mib": "6496c5da",
        "gres": "f90923d4",
        "exclusive": "b31f1d28",
        "required_nodes": "57a4f4c5",
        "switches": "12a401d8",
        "hold": "d7064428",
    }


def test_digests_leave_room_in_the_comment_of_an_operator() -> None:
    full = {name: f"{name}" for name in digests(BEFORE)}
    assert len(str(full)) < 2000
    assert len(fields(JobRequest)) * 40 < 2000


@pytest.mark.parametrize(
    ("change", "edit"),
    [
        ({}, Edit()),
        ({"comment": "after"}, Edit(("comment",))),
        ({"comment": None}, Edit(("comment",))),
        ({"partition": "high", "qos": "q"}, Edit(("partition", "qos"))),
        ({"account": "physics"}, Edit(("account",))),
        ({"reservation": "r"}, Edit(("reservation",))),
        ({"time_limit_minutes": 9}, Edit(("time_limit_minutes",))),
        ({"partition": None}, Edit((), ("partition",))),
        ({"time_limit_minutes": None}, Edit((), ("time_limit_minutes",))),
        ({"cpus": 5}, Edit((), ("cpus",))),
        ({"gres": "gres/gpu:1", "comment": "after"}, Edit(("comment",), ("gres",))),
        ({"priority": 7, "nice": 3, "hold": True}, Edit(("priority", "nice", "hold"))),
        ({"constraints": "a&b", "excluded_nodes": ("n1",)}, Edit((), _TWO)),
        ({"exclusive": Sharing.USER}, Edit((), ("exclusive",))),
    ],
)
def test_edit(change: dict[str, Any], edit: Edit) -> None:
    found = edit_of(pending(), replace(BEFORE, **change))
    assert (set(found.in_place), set(found.anew)) == (set(edit.in_place), set(edit.anew))


@pytest.mark.parametrize("comment", ["", "{not json", tag(), tag(version=99, asked=BEFORE)])
def test_job_of_a_tag_without_digests_is_left_as_it_is(comment: str) -> None:
    job = record(BaseState.PENDING, admin_comment=comment)
    assert edit_of(job, replace(BEFORE, comment="after", cpus=9)) == Edit()


def test_fields_that_were_not_taken_keep_their_digest() -> None:
    after = replace(BEFORE, comment=None, partition="high", priority=7)
    asked = asked_after(digests(BEFORE), after, ("comment", "priority"))
    found = edit_of(replace(pending(), admin_comment=_tagged(asked)), after)
    assert found == Edit(("partition",))


def _tagged(asked: dict[str, str]) -> str:
    found = read_tag(tag())
    assert found is not None
    return msgspec.structs.replace(found, asked=asked).encode()


def test_waiting_pod_that_was_edited_has_its_job_updated() -> None:
    after = replace(BEFORE, comment="after")
    unit = facts(WAITING, job=tracked(pending()), request=after)
    assert decide(unit, NOW) == (Update(JOB, after, ("comment",)), Again(SLOW_LOOK_SECONDS))


def test_refused_edit_is_told_until_its_pause_is_over() -> None:
    after = replace(BEFORE, comment="after")
    unit = facts(
        WAITING,
        job=tracked(pending(state_reason="Resources")),
        request=after,
        update_at=NOW + 20,
        untaken="comment 'after' was not accepted: no",
    )
    tell, *agains = decide(unit, NOW)
    assert isinstance(tell, Tell)
    assert tell.message.endswith("comment 'after' was not accepted: no")
    assert min(it.seconds for it in agains if isinstance(it, Again)) == 20
    assert isinstance(decide(unit, NOW + 20)[0], Update)


def test_edit_that_no_pending_job_takes_gives_the_job_back() -> None:
    unit = facts(WAITING, job=tracked(pending()), request=replace(BEFORE, cpus=64))
    drop, cancel, again = decide(unit, NOW)
    assert isinstance(drop, DropJob)
    assert "cpus" in drop.why
    assert isinstance(cancel, Cancel)
    assert again == Again(0.0)


@pytest.mark.parametrize("stage", [PodStage.GATED, PodStage.BOUND, PodStage.DEPARTING])
def test_only_a_pod_that_waits_is_followed(stage: PodStage) -> None:
    job = tracked(pending(admin_comment=tag(node="n1", asked=BEFORE)))
    actions = decide(facts(pod(stage), job=job, request=replace(BEFORE, comment="x")), NOW)
    assert not [it for it in actions if isinstance(it, Update)]


def test_what_slurm_shows_otherwise_is_told_in_the_condition() -> None:
    job = pending(partition="other", state_reason="Resources")
    tell = decide(facts(WAITING, job=tracked(job), request=BEFORE), NOW)[0]
    assert isinstance(tell, Tell)
    assert "partition is 'main', the job's is 'other'" in tell.message


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        ({"partition": "b,a"}, {"partition": "a,b"}),
        ({"account": "Physics"}, {"account": "physics"}),
        ({}, {"partition": "main", "account": "default", "qos": "normal"}),
    ],
)
def test_equal_in_slurms_eyes_is_no_difference(
    wanted: dict[str, Any], shown: dict[str, Any]
) -> None:
    request = replace(REQUEST, **wanted)
    assert list(differences(record(BaseState.PENDING, **shown), request)) == []


def test_every_field_that_is_updated_is_one_of_the_request() -> None:
    assert {field.name for field in fields(JobRequest)} >= IN_PLACE


def test_end_of_the_time_follows_the_job() -> None:
    bound = pod(PodStage.BOUND, ends_at="2026-11-21T14:00:00Z")
    job = tracked(record(end_time=1_795_273_200))
    assert decide(facts(bound, job=job), NOW)[0] == NoteEnd(bound, "2026-11-21T15:00:00Z")
    noted = pod(PodStage.BOUND, ends_at="2026-11-21T15:00:00Z")
    assert decide(facts(noted, job=job), NOW) == (Again(SLOW_LOOK_SECONDS),)
    assert decide(facts(noted, job=tracked(record())), NOW)[0] == NoteEnd(noted, "")


def test_edit_is_told_by_the_annotation_that_the_pod_has() -> None:
    own = replace(BEFORE, qos="high", keys={"qos": "slurm.example.com/qos"})
    assert edit_of(pending(replace(own, keys={})), own) == Edit()
    (told,) = differences(pending(qos="low", partition="main"), own)
    assert told.startswith("slurm.example.com/qos is 'high'")
