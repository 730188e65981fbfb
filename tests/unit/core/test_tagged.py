from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import fields, replace

from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState, Job, JobState
from tests.unit.core.things import KEY, OURS, record, tag

_SCHEDULER: Final = Path(__file__).parents[3] / "scheduler"
_PLAIN: Final = Job(
    job_id=7,
    name="ns.train.uid-0",
    state=JobState(BaseState.RUNNING),
    nodes=("n1",),
    admin_comment=tag(),
    answered_at=5000,
)


def test_record_that_arrives_keeps_every_field():
    read = TaggedJob.of(_PLAIN)
    assert all(getattr(read, it.name) == getattr(_PLAIN, it.name) for it in fields(Job))


def test_tag_follows_from_the_comment_when_that_is_changed():
    read = TaggedJob.of(_PLAIN)
    assert read.tag is not None
    assert read.tag.outcome == ""
    ended = replace(read, admin_comment=read.tag.encode(outcome="pod Succeeded"))
    assert ended.tag is not None
    assert ended.tag.outcome == "pod Succeeded"
    assert replace(read, admin_comment="a plugin's").tag is None


def test_job_of_a_pod_is_of_its_owners_unit_and_seats_that_pod_only():
    other = type(OURS)("cluster-2", OURS.scheduler)
    for asks in (TaggedJob.is_of, TaggedJob.seats):
        assert asks(record(), KEY, owner=OURS)
        assert not asks(record(), "another", owner=OURS)
        assert not asks(record(), KEY, owner=other)
        assert not asks(record(admin_comment=""), KEY, owner=OURS)


def test_job_of_several_pods_seats_each_and_is_of_their_unit_alone():
    job = record(admin_comment=tag(uids=("a", "b"), key="gang"))
    assert [job.seats(it, owner=OURS) for it in ("a", "b", "ab", "gang")] == [True, True] + 2 * [
        False
    ]
    assert [job.is_of(it, owner=OURS) for it in ("a", "b", "gang")] == [False, False, True]


def test_tag_is_decoded_in_one_place():
    places = {
        path.relative_to(_SCHEDULER).as_posix()
        for path in _SCHEDULER.rglob("*.py")
        if "read_tag(" in path.read_text()
    }
    assert places == {"core/owner_tag.py", "core/tagged.py"}
