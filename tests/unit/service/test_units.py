from __future__ import annotations

import pytest

from scheduler.core.facts import InDoubt, NoJob, Tracked, Vanished
from scheduler.core.owner_tag import Owner
from scheduler.state.member import Member, by_uid
from scheduler.state.units import Placeholder, Unit, Units
from slurmapi import BaseState, JobState
from tests.unit.core.things import KEY, OURS, record, tag


def unit(key: str, job_id: int | None = None) -> Unit:
    job = None if job_id is None else Placeholder(job_id)
    return Unit(key, "ns", "train", seen_at=0.0, job=job)


def gang() -> Unit:
    pods = (Member("a", "t-0"), Member("b", "t-1"))
    return Unit("group", "ns", "train", seen_at=0.0, members=by_uid(pods))


def test_unit_is_found_by_key_and_by_job():
    units = Units()
    added = units.add(unit("a", 7))
    assert units.get("a") is added
    assert units.by_job(7) == (added,)
    assert units.job_ids() == [7]
    assert units.by_job(8) == ()


def test_removed_unit_is_not_followed():
    units = Units()
    units.add(unit("a", 7))
    units.remove("a")
    units.remove("a")
    assert (len(units), units.job_ids(), units.by_job(7)) == (0, [], ())


def test_unit_of_a_single_pod_is_found_by_its_uid():
    units = Units()
    added = units.add(unit("a"))
    assert added.pods == (Member("a", "train"),)
    assert units.of_pod("a") is added


def test_each_pod_of_a_unit_leads_to_it():
    units = Units()
    both = units.add(gang())
    units.add(unit("c"))
    assert [units.of_pod(uid) for uid in ("a", "b", "group")] == [both, both, None]
    assert [units.of_pod(uid) for uid in ("c", "d")] == [units.get("c"), None]


@pytest.mark.parametrize(
    ("uids", "key", "found"),
    [
        (("c",), "", "c"),
        (("gone",), "", None),
        (("a",), "", None),
        (("a", "b"), "group", "group"),
        (("gone",), "group", "group"),
        (("a", "b"), "another", None),
        (("c", "d"), "another", None),
    ],
)
def test_tag_leads_to_the_unit_with_its_key_whatever_pods_it_names(uids, key, found):
    units = Units()
    units.add(gang())
    units.add(unit("c"))
    of_job = record(admin_comment=tag(uids=uids, key=key)).tag
    assert of_job is not None
    met = units.of_tag(of_job)
    assert (None if met is None else met.key) == found


def test_pods_of_a_removed_unit_lead_nowhere():
    units = Units()
    units.add(gang())
    kept = units.add(unit("c"))
    units.remove("group")
    assert [units.of_pod(uid) for uid in ("a", "b", "c")] == [None, None, kept]
    units.clear()
    assert units.of_pod("c") is None


def test_new_job_takes_the_place_of_the_old_one():
    units = Units()
    mine = units.add(unit("a", 7))
    mine.doubt_since = 1.0
    units.set_job(mine, Placeholder(8))
    assert units.job_ids() == [8]
    assert mine.doubt_since is None
    units.set_job(mine, None)
    assert units.job_ids() == []


def test_job_is_followed_though_another_unit_claimed_it_too():
    """A pod made from a copy of another's manifest carries the other's job id."""
    for first, second in (("original", "copy"), ("copy", "original")):
        units = Units()
        made = {key: units.add(unit(key, 7)) for key in (first, second)}
        units.set_job(made["copy"], None)
        assert units.by_job(7) == (made["original"],)
        assert units.job_ids() == [7]


def test_removal_of_a_unit_leaves_the_other_that_claims_its_job():
    units = Units()
    units.add(unit("copy", 7))
    original = units.add(unit("original", 7))
    units.remove("copy")
    assert units.by_job(7) == (original,)


def test_facts_of_the_placeholder():
    mine = unit("a")
    assert mine.job_facts() == NoJob()
    mine.doubt_since = 1.0
    assert mine.job_facts() == InDoubt()
    mine.job = job = Placeholder(7)
    assert mine.job_facts() == Tracked(job_id=7)
    for missing, confirmed in ((1, False), (2, False), (3, True)):
        job.missing = missing
        assert mine.job_facts() == Vanished(7, confirmed=confirmed)


def test_record_from_before_slurm_went_away_is_no_fact():
    mine = unit("a", 4711)
    assert mine.job is not None
    mine.job.record, mine.job.proven = record(), True
    assert mine.job_facts() == Tracked(job_id=4711, record=record())
    mine.job.proven = False
    assert mine.job_facts() == Tracked(job_id=4711)


def test_record_is_believed_for_a_moment_only_while_slurm_is_silent():
    units = Units()
    job = Placeholder(4711, record=record(), record_at=100.0, proven=True)
    assert job.believed(units.believed_since(999.0))
    units.silent = True
    assert job.believed(units.believed_since(101.0))
    assert not job.believed(units.believed_since(103.0))
    mine = units.add(Unit("a", "ns", "train", seen_at=0.0, job=job))
    assert mine.job_facts(since=103.0) == Tracked(job_id=4711, record_at=100.0)


def test_bindings_of_all_pods_go_with_their_unit():
    units = Units()
    mine = units.add(unit("a", 7))
    assert [(pod.uid, pod.name) for pod in mine.pods] == [("a", "train")]
    units.binding |= {pod.uid: "n1" for pod in mine.pods} | {"other": "n2", "late": "n3"}
    units.remove("a")
    units.remove("late")
    assert units.binding == {"other": "n2"}


def test_what_was_seen_of_its_pods_adds_up():
    both = gang()
    assert (both.came_running, both.bound_by_us, both.outcome) == (False, False, "")
    both.pod("b").seen.runs = both.pod("b").seen.bound_by_us = True
    both.pod("b").seen.outcome = "pod Failed"
    assert (both.came_running, both.bound_by_us, both.outcome) == (True, False, "pod Failed")
    both.pod("a").seen.bound_by_us = True
    assert both.bound_by_us
    with pytest.raises(KeyError):
        both.pod("group")


@pytest.mark.parametrize(
    ("uids", "key", "of_single", "of_gang"),
    [
        (("a",), "", True, False),
        (("b",), "", False, False),
        (("a", "b"), "group", False, True),
        (("b", "gone"), "group", False, True),
        (("gone",), "group", False, True),
        (("a", "b"), "another", False, False),
    ],
)
def test_unit_owns_the_jobs_whose_tag_names_its_key(uids, key, of_single, of_gang):
    """A single pod's unit does not own the job of a group, which other pods use too."""
    job = record(admin_comment=tag(uids=uids, key=key))
    assert unit("a").owns(job, owner=OURS) == of_single
    assert gang().owns(job, owner=OURS) == of_gang


@pytest.mark.parametrize(
    "comment",
    ["", "a plugin's", tag(owner=Owner("another", OURS.scheduler))],
    ids=["none", "a plugin's", "another cluster's"],
)
def test_unit_owns_no_job_without_a_tag_of_its_scheduler(comment):
    job = record(admin_comment=comment)
    assert not Unit(KEY, "ns", "train", seen_at=0.0).owns(job, owner=OURS)


@pytest.mark.parametrize("base", [BaseState.PENDING, BaseState.CANCELLED])
def test_job_that_does_not_run_has_no_time_of_its_start(base: BaseState) -> None:
    """Whether a pulse or a look shows it first: the next start is another one."""
    job = Placeholder(7, state=JobState(BaseState.RUNNING), allocated_at=10.0, running_since=11.0)
    job.enter(JobState(base), at=20.0, asked=20.0, answered=20.0)
    assert (job.allocated_at, job.running_since) == (0.0, 0.0)
