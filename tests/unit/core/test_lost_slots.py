"""A running job has lost nodes: who was there has no slot, and all others keep theirs."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.core.actions import Again, Bind, Cancel, DropJob, Evict, Reseat, Warn
from scheduler.core.decide import decide
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import PodStage
from scheduler.core.intervals import SOON_SECONDS
from scheduler.core.lost_slots import kept_ranks
from scheduler.core.owner_tag import read_tag
from scheduler.core.slot_choice import Seat
from tests.unit.core.test_gang import HELD, gang, gang_tag, running, waiting
from tests.unit.core.things import JOB, NOW, pod, tracked

# The node of rank 1 is "n1".
LESS: Final = replace(HELD, nodes=("n3", "n2"))


def test_pod_on_the_lost_node_goes_and_the_others_stay():
    actions = decide(gang(*running(0, 1, 2), job=tracked(LESS)), NOW)
    message = f"Slurm job {JOB} goes on with 2 nodes, without node n1"
    assert actions == (Evict(running(1)[0], Reason.NODE_FAILED, message), Again(SOON_SECONDS))


def test_pod_that_was_started_elsewhere_with_all_nodes_is_only_told():
    moved = replace(HELD, nodes=("n3", "n2", "n9"))
    actions = decide(gang(*running(0, 1, 2), job=tracked(moved)), NOW)
    assert isinstance(actions[0], Warn)


def test_other_pod_that_comes_again_meanwhile_gets_its_own_slot():
    leaving = pod(PodStage.DEPARTING, uid="uid-1", node="n1")
    again = pod(PodStage.WAITING, uid="anew", rank=2)
    unit = gang(*running(0), leaving, again, job=tracked(LESS))
    assert decide(unit, NOW)[-2:] == (
        Reseat(JOB, (Seat(0, "uid-0"), Seat(2, "anew"))),
        Again(0.0),
    )
    named = replace(LESS, admin_comment=gang_tag("uid-0", "anew", ranks=(0, 2)))
    (bind,) = [it for it in decide(replace(unit, job=tracked(named)), NOW) if isinstance(it, Bind)]
    assert (bind.pod, bind.node) == (again, "n2")


@pytest.mark.parametrize("former", ["there", "gone"])
def test_pod_that_comes_again_for_the_lost_node_takes_no_slot_of_others(former):
    failed = pod(PodStage.FINISHED, uid="uid-1", node="n1")
    again = pod(PodStage.WAITING, uid="anew", rank=1)
    pods = (*running(0, 2), again, *([failed] if former == "there" else []))
    actions = decide(gang(*pods, job=tracked(LESS)), NOW)
    assert not any(isinstance(it, Bind | Reseat | Cancel | Evict) for it in actions)


def test_job_that_lost_a_node_before_any_pod_runs_is_given_back():
    drop, cancel, _ = decide(gang(*waiting(0, 1, 2), job=tracked(LESS)), NOW)
    assert isinstance(drop, DropJob)
    assert isinstance(cancel, Cancel)
    assert "it holds 2 nodes for 3 pods" in drop.why


@st.composite
def shrunk(draw: st.DrawFn) -> tuple[list[int], list[int], list[int], int]:
    """Ranks in the order of their nodes, those of lost nodes, and those whose pods are seen."""
    ranks = draw(st.permutations(range(6)))
    lost = draw(st.sets(st.sampled_from(ranks), max_size=5))
    seen = draw(st.sets(st.sampled_from(ranks)))
    return list(ranks), sorted(lost), sorted(seen), draw(st.integers(1, 2))


@given(shrunk())
def test_ranks_that_are_seen_keep_their_slots_or_lose_them_with_their_node(case):
    ranks, lost, seen, _ = case
    tag = read_tag(gang_tag(*(f"uid-{it}" for it in ranks), ranks=tuple(ranks)))
    assert tag is not None
    node = {rank: f"node-{rank}" for rank in ranks}
    slots = [node[rank] for rank in ranks if rank not in lost]
    pods = [pod(PodStage.BOUND, uid=f"uid-{it}", node=node[it]) for it in seen]
    kept = kept_ranks(pods, tag, slots)
    assert len(kept) == len(slots)
    assert [it for it in ranks if it in kept] == list(kept)
    assert set(seen) - set(lost) <= set(kept)
    assert not set(seen) & set(lost) & set(kept)
    unseen = set(ranks) - set(seen)
    if unseen.issubset(lost) or unseen.isdisjoint(lost):
        assert kept == tuple(it for it in ranks if it not in lost)
