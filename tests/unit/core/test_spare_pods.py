"""Pods of a PodGroup beyond those that start together: who they are, and what becomes of them."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.core.actions import (
    Again,
    Bind,
    Cancel,
    DropJob,
    Evict,
    Forget,
    ReadGang,
    ServeBeside,
    Submit,
    Tell,
)
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import NoJob, PodStage, UnitFacts, Vanished
from scheduler.core.gang_ranks import Ranked, RankHold, beyond, open_ranks
from scheduler.core.intervals import LINGER_LOOK_SECONDS, SOON_SECONDS
from scheduler.core.owner_tag import read_tag
from slurmapi.model import BaseState
from tests.unit.core.test_gang import HELD, OF_THREE, gang, gang_tag, running, waiting
from tests.unit.core.things import JOB, NOW, PROBLEMS, pod, record, tracked

SIZE: Final = 2
TAG: Final = read_tag(gang_tag("uid-0", "uid-1"))
SPARE: Final = waiting(3)


def pods(*names: str, standing: RankHold = RankHold.WAITS) -> list[Ranked]:
    """Pods whose names end in their own ranks, or in none."""
    return [
        Ranked(
            uid=f"uid-{name}",
            name=f"trainer-{name}",
            own=int(name) if name.isdigit() else None,
            standing=standing,
        )
        for name in names
    ]


def given_to(found: dict[str, int]) -> dict[int, str]:
    """Who is in the gang, by rank."""
    outside = beyond(found.values(), TAG, size=SIZE)
    return {rank: uid for uid, rank in found.items() if rank not in outside}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("2", "0", "1"), {0: "uid-0", 1: "uid-1"}),
        (("1", "2", "3"), {1: "uid-1", 0: "uid-2"}),
        (("5", "7", "6"), {0: "uid-5", 1: "uid-6"}),
        (("c", "a", "b"), {0: "uid-a", 1: "uid-b"}),
        (("1",), {1: "uid-1"}),
    ],
)
def test_any_so_many_pods_are_the_gang_by_their_own_ranks_and_then_by_name(names, expected):
    assert given_to(open_ranks(pods(*names), None, size=SIZE)) == expected


def test_two_pods_that_say_the_same_rank_are_both_of_the_gang():
    """Operators count the pods of each of their templates from 0."""
    alike = [Ranked(uid=it, name=f"{it}-0", own=0) for it in ("worker", "master")]
    assert open_ranks(alike, None, size=SIZE) == {"master": 0, "worker": 1}


def test_pods_that_cannot_start_hold_up_no_others():
    found = open_ranks([*pods("0", standing=RankHold.GATED), *pods("1", "2")], None, size=SIZE)
    assert given_to(found) == {1: "uid-1", 0: "uid-2"}


def test_pods_of_a_former_life_hold_no_rank_of_the_next():
    """They succeeded, and nobody has deleted them."""
    done = [replace(it, uid=f"old-{it.uid}") for it in pods("0", "1", standing=RankHold.DONE)]
    found = open_ranks([*done, *pods("0", "1")], None, size=SIZE)
    assert (found["uid-0"], found["uid-1"]) == (0, 1)


def test_pods_that_the_job_names_stay_its_pods():
    tag = read_tag(gang_tag("uid-3", "uid-2"))
    assert open_ranks(pods("0", "1", "2", "3"), tag, size=SIZE) == {
        "uid-3": 0,
        "uid-2": 1,
        "uid-0": 2,
        "uid-1": 3,
    }


@pytest.mark.parametrize("left", [RankHold.GONE, RankHold.LEAVES, RankHold.DONE])
@pytest.mark.parametrize("strangers", [(), ("2", "3")])
def test_pod_that_comes_again_gets_its_rank_and_no_other_takes_it(left, strangers):
    there = pods("0", standing=RankHold.RUNS)
    former = pods("1", standing=left)
    again = [replace(it, uid="anew") for it in pods("1")]
    found = open_ranks([*pods(*strangers), *again, *there, *former], TAG, size=SIZE)
    assert (found["uid-0"], found["anew"]) == (0, 1)
    assert all(found[f"uid-{it}"] >= SIZE for it in strangers)


def test_slot_of_a_pod_that_has_gone_waits_for_it_while_the_gang_runs():
    there = [*pods("0", standing=RankHold.RUNS), *pods("1", standing=RankHold.GONE)]
    assert open_ranks([*there, *pods("2")], TAG, size=SIZE)["uid-2"] == SIZE


def test_pod_takes_the_place_of_one_that_goes_while_the_gang_waits():
    there = [*pods("0"), *pods("1", standing=RankHold.GONE)]
    assert open_ranks([*there, *pods("2")], TAG, size=SIZE)["uid-2"] == 1


def test_pod_whose_name_says_nothing_takes_the_slot_of_one_that_leaves():
    tag = read_tag(gang_tag("uid-a", "uid-b"))
    there = [*pods("a", standing=RankHold.RUNS), *pods("b", standing=RankHold.LEAVES)]
    found = open_ranks([*there, *pods("c", "d")], tag, size=SIZE)
    assert (found["uid-c"], found["uid-d"]) == (1, SIZE)


def test_pod_that_got_a_free_rank_gets_it_again_by_its_name():
    tag = read_tag(gang_tag("uid-3", "uid-1"))
    there = pods("1", standing=RankHold.RUNS)
    again = [replace(it, uid="anew") for it in pods("3")]
    assert open_ranks([*there, *again], tag, size=SIZE)["anew"] == 0


def some_pods() -> st.SearchStrategy[list[Ranked]]:
    number = st.integers(0, 6)
    return st.lists(
        st.builds(
            Ranked,
            uid=number.map("uid-{}".format),
            name=number.map("train-{}".format),
            own=st.none() | number,
            standing=st.sampled_from(RankHold),
        ),
        max_size=7,
        unique_by=lambda it: it.uid,
    )


@given(some_pods(), st.none() | st.permutations(range(3)), st.integers(2, 4))
def test_each_rank_of_an_open_gang_has_one_pod_that_stays(found, order, size):
    tag = None if order is None else read_tag(gang_tag(*(f"uid-{it}" for it in order)))
    ranks = open_ranks(found, tag, size=size)
    assert ranks.keys() == {it.uid for it in found}
    stay = {RankHold.RUNS, RankHold.WAITS, RankHold.GATED}
    held = [ranks[it.uid] for it in found if it.standing in stay]
    assert len(set(held)) == len(held)
    noted = {} if tag is None else dict(zip(tag.uids, tag.ranks, strict=True))
    assert all(ranks[uid] == rank for uid, rank in noted.items() if uid in ranks)


@given(some_pods(), st.integers(2, 4))
def test_so_many_pods_that_can_start_are_the_gang_whatever_their_names(found, size):
    able = {it.uid for it in found if it.standing in {RankHold.RUNS, RankHold.WAITS}}
    ranks = open_ranks(found, None, size=size)
    inside = {uid for uid in able if ranks[uid] < size}
    assert len(inside) == min(size, len(able))


# --- what is decided ------------------------------------------------------------------------------


def told(actions: tuple[object, ...]) -> list[Tell]:
    return [it for it in actions if isinstance(it, Tell) and it.reason is Reason.WAITS_FOR_GANG]


def with_spare(*of_gang: object, **more: object) -> UnitFacts:
    return replace(gang(*of_gang, **more), spare=SPARE)  # type: ignore[arg-type]


def test_pod_beyond_is_told_what_it_waits_for_while_its_gang_is_submitted_and_started():
    actions = decide(with_spare(*waiting(0, 1, 2)), NOW)
    (submit,) = (it for it in actions if isinstance(it, Submit))
    assert [it.uid for it in submit.seats] == ["uid-0", "uid-1", "uid-2"]
    (tell,) = told(actions)
    assert tell.pod == SPARE[0]
    assert tell.message == (
        "Gang trainer has its 3 pods without this one, which gets a Slurm job of its own as soon "
        "as the gang runs"
    )
    started = decide(with_spare(*waiting(0, 1, 2), job=tracked(HELD)), NOW)
    assert [it.pod.uid for it in started if isinstance(it, Bind)] == ["uid-0", "uid-1", "uid-2"]
    assert told(started)
    assert not any(isinstance(it, ServeBeside) for it in started)


def test_pod_beyond_is_served_alone_once_the_gang_runs():
    actions = decide(with_spare(*running(0, 1, 2), job=tracked(HELD)), NOW)
    assert actions[-1] == ServeBeside(SPARE)
    assert not told(actions)


def test_gated_pod_beyond_is_left_alone():
    gated = (pod(PodStage.GATED, uid="uid-3"),)
    for unit in (gang(*running(0, 1, 2), job=tracked(HELD)), gang(*waiting(0, 1, 2))):
        assert decide(replace(unit, spare=gated), NOW) == decide(unit, NOW)


@pytest.mark.parametrize(
    "job",
    [
        NoJob(),
        tracked(replace(HELD, state=record(BaseState.PENDING).state)),
        tracked(replace(HELD, state=record(BaseState.SUSPENDED).state)),
        tracked(replace(HELD, state=record(BaseState.NODE_FAIL).state)),
        tracked(replace(HELD, admin_comment="")),
    ],
)
def test_pod_beyond_is_not_served_alone_while_its_gang_holds_no_nodes(job):
    actions = decide(with_spare(*running(0, 1, 2), job=job), NOW)
    assert not any(isinstance(it, ServeBeside) for it in actions)
    assert len(told(actions)) == 1


def test_pods_beyond_do_not_go_with_the_gang_and_are_the_next_one():
    ended = tracked(replace(HELD, state=record(BaseState.PREEMPTED).state))
    evicting = decide(with_spare(*running(0, 1, 2), job=ended), NOW)
    assert [it.pod.uid for it in evicting if isinstance(it, Evict)] == ["uid-0", "uid-1", "uid-2"]
    over = decide(with_spare(job=ended), NOW)
    assert over[:2] == (DropJob(JOB, "the gang has ended"), Again(0.0))
    lost = decide(with_spare(job=Vanished(JOB, confirmed=True)), NOW)
    assert lost[:2] == (DropJob(JOB, "the gang has ended"), Again(0.0))
    assert decide(with_spare(), NOW)[0] == Again(SOON_SECONDS)


def test_allocation_is_kept_for_the_gangs_own_pods_though_others_wait():
    quiet = replace(OF_THREE, quiet_since=NOW - 20, linger_seconds=60.0)
    unit = with_spare(of=quiet, job=tracked(HELD))
    assert decide(unit, NOW)[0] == Again(LINGER_LOOK_SECONDS)
    gone = replace(unit, gang=replace(quiet, quiet_since=0.0))
    assert isinstance(decide(gone, NOW)[0], Cancel)


@given(st.booleans(), st.sampled_from(BaseState))
def test_unit_with_a_pod_beyond_is_never_forgotten(has_pods, base):
    job = tracked(replace(HELD, state=record(base).state))
    actions = decide(with_spare(*(running(0, 1, 2) if has_pods else ()), job=job), NOW)
    assert Forget() not in actions


def test_object_is_read_before_a_pod_is_refused_that_may_be_none_of_the_gang():
    unread = replace(OF_THREE, size=None, minimum=0, has_object=True)
    unit = gang(*waiting(0, 1, 2), of=unread, request=PROBLEMS, job=tracked(HELD))
    assert decide(unit, NOW) == (ReadGang(),)
    read = replace(unit, gang=replace(unread, read_at=NOW))
    assert any(isinstance(it, DropJob) for it in decide(read, NOW))


def test_slot_of_a_pod_that_leaves_is_given_on_whoever_had_it_before():
    """The search for one had passed it when it was that of a pod that has succeeded."""
    pods = [
        Ranked(uid="uid-0", name="done", standing=RankHold.DONE),
        Ranked(uid="uid-1", name="runs", standing=RankHold.RUNS),
        Ranked(uid="uid-2", name="has-no-slot", standing=RankHold.RUNS),
        Ranked(uid="uid-3", name="leaves", own=0, standing=RankHold.LEAVES),
        Ranked(uid="uid-4", name="waits", standing=RankHold.WAITS),
    ]
    assert open_ranks(pods, TAG, size=SIZE)["uid-4"] == 0
