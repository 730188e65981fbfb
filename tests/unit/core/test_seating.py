"""The waiting pods of a unit get the slots of their ranks; one slot is never given to two pods."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.core.actions import Again, Bind, Reseat, Tell
from scheduler.core.decide import decide
from scheduler.core.facts import RUNS, PodFacts, PodStage
from scheduler.core.intervals import SLOW_LOOK_SECONDS
from scheduler.core.seating import seating, sitters_of
from scheduler.core.slot_choice import Seat
from tests.unit.core.things import GANG, JOB, NOW, facts, places, pod, record, tag, tracked

SLOW: Final = Again(SLOW_LOOK_SECONDS)
NODES: Final = ("n3", "n1", "n2")
HELD: Final = record(nodes=NODES, admin_comment=tag(uids=("uid-0", "uid-1", "uid-2"), key=GANG))


def seated(*pods: PodFacts) -> dict[str, str] | str:
    unit = facts(*pods, key=GANG, job=tracked(HELD))
    found = seating(unit, HELD, NOW)
    if isinstance(found, str):
        return found
    return found.nodes_of([it for it in pods if it.stage is PodStage.WAITING])


@st.composite
def units(draw: st.DrawFn) -> tuple[PodFacts, ...]:
    """Some of three ranks, some with a former pod too; what runs sits where its rank does."""
    pods: list[PodFacts] = []
    for rank, node in enumerate(NODES):
        for number in range(draw(st.integers(0, 2))):
            runs = not any(it.rank == rank and it.stage in RUNS for it in pods)
            stages = [it for it in PodStage if runs or it not in RUNS]
            stage = draw(st.sampled_from(stages))
            uid = f"uid-{rank}" if number == 0 else f"new-{rank}"
            where = node if stage in RUNS else ""
            pods.append(pod(stage, uid=uid, rank=rank, node=where))
    return tuple(draw(st.permutations(pods)))


@given(units())
def test_each_waiting_pod_gets_the_node_of_its_rank_or_waits_for_the_one_of_its_rank_that_runs(
    pods: tuple[PodFacts, ...],
) -> None:
    found = seated(*pods)
    assert isinstance(found, dict)
    running = {it.rank for it in pods if it.stage in RUNS}
    served = {it.rank: found[it.uid] for it in pods if it.uid in found}
    waiting = {it.rank for it in pods if it.stage is PodStage.WAITING}
    assert served == {rank: NODES[rank] for rank in waiting - running}
    assert all(it.stage is PodStage.WAITING for it in pods if it.uid in found)
    used = Counter(found.values()) + Counter(it.node for it in pods if it.stage in RUNS)
    assert all(number == 1 for number in used.values())


@given(units())
def test_next_process_deals_out_the_same_slots_whoever_was_bound_by_then(
    pods: tuple[PodFacts, ...],
) -> None:
    before = seated(*pods)
    assert isinstance(before, dict)
    one = min(before, default="")
    after = seated(
        *(
            replace(it, stage=PodStage.BOUND, node=before[one]) if it.uid == one else it
            for it in pods
        )
    )
    assert after == {uid: node for uid, node in before.items() if uid != one}


@given(units())
def test_every_rank_has_a_sitter_whatever_has_become_of_its_pod(pods: tuple[PodFacts, ...]) -> None:
    sitters = sitters_of(pods, HELD.tag)
    assert {it.rank for it in sitters} == {0, 1, 2}
    assert len({it.uid for it in sitters}) == len(sitters) == 3


@pytest.mark.parametrize("former", [PodStage.FINISHED, PodStage.WITHDRAWN, PodStage.GATED])
def test_pod_that_comes_again_takes_the_slot_of_its_rank(former):
    pods = (
        pod(PodStage.BOUND, uid="uid-0", node="n3"),
        pod(former, uid="uid-1"),
        pod(PodStage.WAITING, uid="anew", rank=1),
        pod(PodStage.FINISHED, uid="uid-2"),
    )
    unit = facts(*pods, key=GANG, job=tracked(HELD), nodes=places(*NODES))
    seats = (Seat(0, "uid-0"), Seat(1, "anew"), Seat(2, "uid-2"))
    assert decide(unit, NOW) == (Reseat(JOB, seats), Again(0.0))
    noted = replace(HELD, admin_comment=tag(uids=("uid-0", "anew", "uid-2"), key=GANG))
    then = replace(unit, job=tracked(noted))
    assert decide(then, NOW) == (Bind(pods[2], "n1", JOB, "kube-n1"), SLOW)


def test_pod_waits_until_the_one_of_its_rank_has_left():
    pods = (
        pod(PodStage.BOUND, uid="uid-0", node="n3"),
        pod(PodStage.DEPARTING, uid="uid-1", node="n1"),
        pod(PodStage.WAITING, uid="anew", rank=1),
    )
    tell, again = decide(facts(*pods, key=GANG, job=tracked(HELD), nodes=places(*NODES)), NOW)
    assert isinstance(tell, Tell)
    assert (tell.pod, again) == (pods[2], SLOW)


def test_slots_are_not_dealt_out_while_it_is_not_known_where_a_pod_runs():
    pods = (pod(PodStage.BOUND, uid="uid-0", node=""), pod(PodStage.WAITING, uid="uid-1"))
    tell, again = decide(facts(*pods, key=GANG, job=tracked(HELD)), NOW)
    assert isinstance(tell, Tell)
    assert (tell.pod, again) == (pods[1], SLOW)
    assert "it is not known which of its nodes" in tell.message


@pytest.mark.parametrize(("nodes", "held"), [((), 0), (("n1", "n2", "n3", "n4"), 4)])
def test_job_with_another_number_of_nodes_has_no_slots(nodes, held):
    looked = replace(HELD, nodes=nodes)
    unit = facts(pod(PodStage.WAITING, uid="uid-0"), key=GANG, job=tracked(looked))
    assert seating(unit, looked, NOW) == f"it holds {held} nodes for 3 pods"
