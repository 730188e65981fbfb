"""Gangs: nothing starts before all pods exist, one job for all, and slots are kept for a while."""

from __future__ import annotations

from typing import Any, Final

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
    PartWith,
    ReadGang,
    Reject,
    Reseat,
    Submit,
    Tell,
)
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import GangFacts, JobFacts, MissingPod, PodFacts, PodStage, UnitFacts
from scheduler.core.gang_patience import REREAD_SECONDS
from scheduler.core.gang_ranks import Ranked, RankHold, ranks_of
from scheduler.core.intervals import LINGER_LOOK_SECONDS, SLOW_LOOK_SECONDS, SOON_SECONDS
from scheduler.core.owner_tag import SEVERAL, OwnerTag, read_tag
from scheduler.core.slot_choice import Seat
from slurmapi.model import BaseState
from tests.unit.core.things import (
    GANG,
    JOB,
    NOW,
    OURS,
    PROBLEMS,
    facts,
    places,
    pod,
    record,
    tracked,
)

NODES: Final = ("n3", "n1", "n2")
OF_THREE: Final = GangFacts(name="trainer", group="job/trainer", size=3, minimum=3)


def waiting(*ranks: int) -> tuple[PodFacts, ...]:
    return tuple(pod(PodStage.WAITING, uid=f"uid-{rank}", name=f"trainer-{rank}") for rank in ranks)


def running(*ranks: int) -> tuple[PodFacts, ...]:
    return tuple(
        pod(PodStage.BOUND, uid=f"uid-{rank}", name=f"trainer-{rank}", node=NODES[rank])
        for rank in ranks
    )


def gang(
    *pods: PodFacts, job: JobFacts | None = None, of: GangFacts = OF_THREE, **more: Any
) -> UnitFacts:
    fields: dict[str, Any] = {"missing": (), "nodes": places(*NODES)}
    return facts(*pods, key=GANG, gang=of, job=job, **(fields | more))


def gang_tag(*uids: str, ranks: tuple[int, ...] | None = None, **more: Any) -> str:
    fields: dict[str, Any] = {"v": SEVERAL, "namespace": "ns", "unit": "trainer", "unit_key": GANG}
    return OwnerTag(
        cluster=OURS.cluster,
        scheduler=OURS.scheduler,
        uids=uids,
        ranks=tuple(range(len(uids))) if ranks is None else ranks,
        names=tuple(f"trainer-{uid[-1:]}" for uid in uids),
        group="job/trainer",
        **(fields | more),
    ).encode()


HELD: Final = record(nodes=NODES, admin_comment=gang_tag("uid-0", "uid-1", "uid-2"))


def test_gang_waits_until_its_last_pod_exists():
    first, second, again = decide(gang(*waiting(0, 2)), NOW)
    assert isinstance(first, Tell)
    assert isinstance(second, Tell)
    assert first.reason is second.reason is Reason.GANG_INCOMPLETE
    assert first.message.startswith("Gang trainer (2 of 3 pods exist): waiting for trainer-1")
    assert again == Again(SLOW_LOOK_SECONDS)
    submit, _ = decide(gang(*waiting(0, 2, 1)), NOW)
    assert isinstance(submit, Submit)
    assert submit.seats == (Seat(0, "uid-0"), Seat(1, "uid-1"), Seat(2, "uid-2"))


def test_size_is_read_before_anything_is_told():
    unread = replace(OF_THREE, size=None, minimum=0, has_object=True)
    assert decide(gang(*waiting(0), of=unread), NOW) == (ReadGang(),)
    named = replace(OF_THREE, has_object=True)
    assert decide(gang(*waiting(0), of=named), NOW) == (ReadGang(),)


def test_object_is_read_again_while_pods_are_missing():
    young = replace(OF_THREE, has_object=True, read_at=NOW - 10)
    assert decide(gang(*waiting(0), of=young), NOW)[-1] == Again(REREAD_SECONDS - 10)
    old = replace(young, read_at=NOW - REREAD_SECONDS)
    assert decide(gang(*waiting(0), of=old), NOW)[-1:] == (ReadGang(),)


@pytest.mark.parametrize(
    ("ranked", "there", "told"),
    [
        (True, (0, 1), "trainer-2"),
        (True, (), "trainer-0, trainer-1, trainer-2"),
        (False, (0, 1), "1 more pod"),
        (False, (2,), "2 more pods"),
    ],
)
def test_pods_that_are_missing_are_named(ranked, there, told):
    gated = pod(PodStage.GATED, uid="uid-9", rank=9)
    unit = gang(*waiting(*there), waiting(8)[0], gated, of=replace(OF_THREE, ranked=ranked))
    tell = decide(unit, NOW)[0]
    assert isinstance(tell, Tell)
    assert f"waiting for {told}. " in tell.message


def test_gang_in_steps_asks_for_all_slots_with_the_pods_that_come_by_themselves():
    steps = replace(OF_THREE, minimum=1)
    submit, _ = decide(gang(*waiting(0), of=steps), NOW)
    assert isinstance(submit, Submit)
    assert submit.seats == (Seat(0, "uid-0"), Seat(1), Seat(2))
    held = tracked(record(nodes=NODES, admin_comment=gang_tag("uid-0", "", "")))
    assert decide(gang(*waiting(0), of=steps, job=held), NOW)[0] == bound(waiting(0)[0])


def bound(it: PodFacts, *, size: int = 3) -> Bind:
    node = NODES[it.rank]
    return Bind(it, node, JOB, f"kube-{node}", first_node="kube-n3", gang_size=size)


def test_all_are_bound_together_in_the_order_of_their_ranks():
    unit = gang(*waiting(2, 0, 1), job=tracked(HELD))
    assert decide(unit, NOW)[:-1] == tuple(map(bound, waiting(2, 0, 1)))


def test_object_is_read_before_a_pod_of_a_gang_that_another_process_started_is_bound():
    """The object says how many pods there are, and of a JobSet which rank each has."""
    again = pod(PodStage.WAITING, uid="anew", rank=1)
    unread = replace(OF_THREE, size=None, minimum=0, has_object=True)
    unit = gang(*running(0, 2), again, of=unread, job=tracked(HELD))
    assert ReadGang() in decide(unit, NOW)
    gone = replace(unit, gang=replace(unread, read_at=NOW))
    named = tracked(replace(HELD, admin_comment=gang_tag("uid-0", "anew", "uid-2")))
    assert decide(replace(gone, job=named), NOW)[0] == bound(again)


def test_pod_that_is_missing_when_the_job_starts_holds_up_all():
    unit = gang(*waiting(0, 1), job=tracked(HELD, running_since=NOW))
    first, second, again = decide(unit, NOW)
    assert isinstance(first, Tell)
    assert isinstance(second, Tell)
    assert "waiting for trainer-2" in first.message
    assert again == Again(SOON_SECONDS)


def test_pod_that_has_succeeded_needs_no_slot_in_a_new_job():
    done = pod(PodStage.FINISHED, uid="uid-1", succeeded=True)
    submit, _ = decide(gang(*waiting(0, 2), done), NOW)
    assert isinstance(submit, Submit)
    assert submit.seats == (Seat(0, "uid-0"), Seat(2, "uid-2"))
    comment = gang_tag("uid-0", "uid-2", ranks=(0, 2))
    held = tracked(record(nodes=("n3", "n1"), admin_comment=comment))
    binds = decide(gang(*waiting(0, 2), done, job=held), NOW)[:-1]
    assert [(it.pod.uid, it.node) for it in binds if isinstance(it, Bind)] == [
        ("uid-0", "n3"),
        ("uid-2", "n1"),
    ]


def test_pod_that_comes_again_gets_its_slot_once_the_tag_names_it():
    failed = pod(PodStage.FINISHED, uid="uid-1")
    again = pod(PodStage.WAITING, uid="anew", rank=1)
    unit = gang(*running(0, 2), failed, again, job=tracked(HELD))
    seats = (Seat(0, "uid-0"), Seat(1, "anew"), Seat(2, "uid-2"))
    assert decide(unit, NOW) == (Reseat(JOB, seats), Again(0.0))
    noted = tracked(replace(HELD, admin_comment=gang_tag("uid-0", "anew", "uid-2")))
    assert decide(replace(unit, job=noted), NOW)[0] == bound(again)


def test_slot_of_a_pod_that_may_still_run_unseen_is_not_given_away():
    again = pod(PodStage.WAITING, uid="anew", rank=1)
    gone = MissingPod(uid="uid-1", name="trainer-1", rank=1, placed=True, lingers_until=NOW + 5)
    unit = gang(*running(0, 2), again, missing=(gone,), job=tracked(HELD))
    assert not any(isinstance(it, Bind | Reseat | PartWith) for it in decide(unit, NOW))
    later = decide(replace(unit, missing=(replace(gone, lingers_until=NOW),)), NOW)
    assert later[0] == PartWith((replace(gone, lingers_until=NOW),))


def test_allocation_is_kept_for_pods_that_are_expected_again():
    ended = tuple(pod(PodStage.FINISHED, uid=f"uid-{rank}") for rank in range(3))
    quiet = replace(OF_THREE, quiet_since=NOW - 20, linger_seconds=60.0)
    unit = gang(*ended, of=quiet, job=tracked(HELD))
    assert decide(unit, NOW) == (Again(LINGER_LOOK_SECONDS),)
    assert isinstance(decide(replace(unit, gang=replace(quiet, quiet_since=0.0)), NOW)[0], Cancel)
    assert isinstance(decide(replace(unit, gang=replace(quiet, over=True)), NOW)[0], Cancel)
    asked = replace(quiet, has_object=True, read_at=NOW - 30)
    assert decide(replace(unit, gang=asked), NOW) == (ReadGang(),)


def test_job_ends_at_once_when_all_have_succeeded():
    done = tuple(pod(PodStage.FINISHED, uid=f"uid-{rank}", succeeded=True) for rank in range(3))
    unit = gang(*done, of=replace(OF_THREE, quiet_since=NOW), job=tracked(HELD))
    assert isinstance(decide(unit, NOW)[0], Cancel)


def test_gang_whose_pods_are_deleted_while_it_waits_is_withdrawn():
    pending = tracked(replace(HELD, state=record(BaseState.PENDING).state, nodes=()))
    gone = tuple(pod(PodStage.WITHDRAWN, uid=f"uid-{rank}") for rank in range(3))
    unit = gang(*gone, of=replace(OF_THREE, quiet_since=NOW), job=pending)
    assert isinstance(decide(unit, NOW)[0], Cancel)


def test_job_of_a_gang_that_was_scaled_while_it_waits_is_asked_for_anew():
    pending = tracked(replace(HELD, state=record(BaseState.PENDING).state, nodes=()))
    two = replace(OF_THREE, size=2, minimum=2)
    drop, cancel, again = decide(gang(*waiting(0, 1), of=two, job=pending), NOW)
    assert isinstance(drop, DropJob)
    assert "has 2 pods to start now, and its Slurm job is for 3" in drop.why
    assert isinstance(cancel, Cancel)
    assert again == Again(0.0)
    kept = decide(gang(*waiting(0, 1, 2), job=pending), NOW)
    assert not any(isinstance(it, DropJob) for it in kept)


def test_end_of_the_job_ends_all_its_pods():
    ended = tracked(replace(HELD, state=record(BaseState.PREEMPTED).state))
    evicted = [
        it for it in decide(gang(*running(0, 1, 2), job=ended), NOW) if isinstance(it, Evict)
    ]
    assert [it.pod.uid for it in evicted] == ["uid-0", "uid-1", "uid-2"]
    assert {it.reason for it in evicted} == {Reason.PREEMPTED}


def test_new_job_for_pods_that_run_has_their_slots():
    unit = gang(*running(0, 2))
    submit = decide(unit, NOW)[0]
    assert isinstance(submit, Submit)
    assert submit.nodes == ("n3", "n2")
    assert submit.seats == (Seat(0, "uid-0"), Seat(2, "uid-2"))


def test_pod_at_fault_is_refused_and_the_others_say_which_it_is():
    culprit = replace(OF_THREE, culprit="trainer-1")
    first, second, third = decide(gang(*waiting(0, 1, 2), of=culprit, request=PROBLEMS), NOW)
    assert isinstance(first, Tell)
    assert isinstance(third, Tell)
    assert "trainer-1 cannot be served" in first.message
    assert second == Reject(waiting(1)[0], PROBLEMS)


def test_several_pods_of_a_gang_share_a_node():
    two = replace(OF_THREE, size=4, minimum=4, per_node=2)
    submit, _ = decide(gang(*waiting(0, 1, 2, 3), of=two), NOW)
    assert isinstance(submit, Submit)
    assert (submit.per_node, len(submit.seats)) == (2, 4)
    comment = gang_tag("uid-0", "uid-1", "uid-2", "uid-3", per_node=2)
    held = tracked(record(nodes=("n3", "n1"), admin_comment=comment))
    binds = decide(gang(*waiting(0, 1, 2, 3), of=two, job=held), NOW)[:-1]
    assert [it.node for it in binds if isinstance(it, Bind)] == ["n3", "n3", "n1", "n1"]


# --- ranks ----------------------------------------------------------------------------------------


def some_pods() -> st.SearchStrategy[list[Ranked]]:
    number = st.integers(0, 5)
    return st.lists(
        st.builds(
            Ranked,
            uid=number.map("uid-{}".format),
            name=number.map("train-{}".format),
            own=st.none() | number,
            standing=st.sampled_from(RankHold),
        ),
        max_size=6,
        unique_by=lambda it: it.uid,
    )


@given(some_pods(), st.permutations(range(4)))
def test_each_pod_has_one_rank_and_no_two_without_their_own_share_one(pods, order):
    tag = read_tag(gang_tag(*(f"uid-{number}" for number in order)))
    ranks = ranks_of(pods, tag)
    assert ranks.keys() == {it.uid for it in pods}
    assert all(ranks[it.uid] == it.own for it in pods if it.own is not None)
    own = {it.own for it in pods if it.own is not None and it.counts}
    given_away = [ranks[it.uid] for it in pods if it.own is None and it.counts]
    assert len(set(given_away)) == len(given_away)
    noted = set(map("uid-{}".format, order))
    fresh = {ranks[it.uid] for it in pods if it.own is None and it.uid not in noted}
    assert fresh.isdisjoint(own)


def test_ranks_follow_the_numbers_in_the_names_and_stay_after_a_restart():
    pods = [Ranked(uid=f"u{it}", name=f"train-{it}") for it in (10, 9, 2)]
    assert ranks_of(pods, None) == {"u2": 0, "u9": 1, "u10": 2}
    noted = read_tag(gang_tag("u10", "u9", "u2"))
    assert ranks_of(pods, noted) == {"u10": 0, "u9": 1, "u2": 2}
    ended = [
        replace(pods[0], standing=RankHold.GONE),
        *pods[1:],
        Ranked(uid="new", name="train-11"),
    ]
    assert ranks_of(ended, noted)["new"] == 0
