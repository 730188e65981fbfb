"""Nodes whose pods have all succeeded are given back, and never one that a pod may need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.core.actions import Bind, GiveBack, Reseat
from scheduler.core.decide import decide
from scheduler.core.facts import MissingPod, PodFacts, PodStage, UnitFacts
from scheduler.core.owner_tag import TagPart, read_tag
from scheduler.core.seating import retagged
from scheduler.core.tagged import TaggedJob
from tests.unit.core.test_gang import HELD, NODES, OF_THREE, gang, gang_tag, running
from tests.unit.core.things import JOB, NOW, places, pod, record, tracked


def done(rank: int, *, final: bool = True, node: str | None = None) -> PodFacts:
    where = NODES[rank] if node is None else node
    return pod(
        PodStage.FINISHED, uid=f"uid-{rank}", node=where, succeeded=True, final=final, rank=rank
    )


def given_back(unit: UnitFacts) -> list[GiveBack]:
    return [it for it in decide(unit, NOW) if isinstance(it, GiveBack)]


def test_node_of_a_pod_that_has_succeeded_is_given_back() -> None:
    unit = gang(*running(0, 2), done(1), job=tracked(HELD))
    assert given_back(unit) == [GiveBack(JOB, ("n3", "n2"), NODES)]


@pytest.mark.parametrize(
    "unit",
    [
        gang(*running(0, 2), done(1, final=False), job=tracked(HELD)),
        gang(*running(0, 2), pod(PodStage.FINISHED, uid="uid-1", node="n1"), job=tracked(HELD)),
        gang(*running(0, 2), job=tracked(HELD)),
        gang(*running(0, 2), done(1, node=""), job=tracked(HELD)),
        gang(*running(0, 2), done(1), job=tracked(replace(HELD, batch=True))),
        gang(*running(0, 2), done(1), job=tracked(HELD), give_back_at=NOW + 1),
        gang(
            *running(0),
            done(1),
            missing=(MissingPod(uid="uid-2", name="trainer-2", rank=2, placed=True),),
            job=tracked(HELD),
        ),
    ],
    ids=["comes again", "failed", "unseen", "nowhere", "script", "refused", "another missing"],
)
def test_nothing_is_given_back(unit: UnitFacts) -> None:
    assert given_back(unit) == []


SHRUNK: Final = replace(
    HELD,
    nodes=("n3", "n2"),
    admin_comment=gang_tag("uid-0", "uid-1", "uid-2", at=NODES),
)


@pytest.mark.parametrize("former", ["there", "gone"])
def test_index_that_fails_after_another_has_completed_gets_its_slot_back(former: str) -> None:
    """Even if the pod that completed is gone from the API."""
    again = pod(PodStage.WAITING, uid="anew", rank=2)
    unit = gang(*running(0), again, *([done(1)] if former == "there" else []), job=tracked(SHRUNK))
    (reseat, *_) = [it for it in decide(unit, NOW) if isinstance(it, Reseat)]
    assert [(it.rank, it.uid) for it in reseat.seats] == [(0, "uid-0"), (2, "anew")]
    named = replace(SHRUNK, admin_comment=gang_tag("uid-0", "anew", ranks=(0, 2)))
    (bind,) = [it for it in decide(replace(unit, job=tracked(named)), NOW) if isinstance(it, Bind)]
    assert (bind.pod, bind.node) == (again, "n2")


def test_job_is_kept_for_those_that_fail_together_after_another_has_completed() -> None:
    both = (pod(PodStage.WAITING, uid="new-0", rank=0), pod(PodStage.WAITING, uid="new-2", rank=2))
    unit = gang(*both, done(1), job=tracked(SHRUNK))
    (reseat, *_) = [it for it in decide(unit, NOW) if isinstance(it, Reseat)]
    assert [(it.rank, it.uid) for it in reseat.seats] == [(0, "new-0"), (2, "new-2")]


def test_tag_that_names_another_number_of_nodes_than_slots_is_not_believed() -> None:
    assert read_tag(gang_tag("uid-0", "uid-1", at=("n1",))) is None
    assert read_tag(gang_tag("uid-0", "uid-1", at=("n1", "n2"))) is not None


# --- properties -----------------------------------------------------------------------------------

_FATES: Final = ("runs", "final", "succeeded", "failed", "waits", "none")


@dataclass(frozen=True)
class Life:
    """What has become of the pod of each rank, how many share a node, and on how many of the nodes
    the first of two components is; 0 if the job has no components.
    """

    fates: dict[int, str]
    per_node: int
    first: int

    @property
    def where(self) -> dict[int, str]:
        """The node of each rank."""
        return {rank: f"n{rank // self.per_node}" for rank in self.fates}

    @property
    def components(self) -> tuple[tuple[str, ...], ...]:
        """The nodes of each."""
        nodes = tuple(dict.fromkeys(self.where.values()))
        return (nodes[: self.first], nodes[self.first :]) if self.first else (nodes,)


@st.composite
def lives(draw: st.DrawFn) -> Life:
    per_node, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    # A pod that waits, or may come, puts everything off: half of the gangs have none.
    known = draw(st.sampled_from((("final", "runs"), ("final", "final", *_FATES))))
    fates = {rank: draw(st.sampled_from(known)) for rank in range(per_node * nodes)}
    return Life(fates, per_node, draw(st.integers(0, nodes - 1)))


def unit_of(fates: dict[int, str], looked: TaggedJob, where: dict[int, str]) -> UnitFacts:
    pods: list[PodFacts] = []
    for rank, fate in fates.items():
        uid = f"uid-{rank}"
        match fate:
            case "runs":
                pods.append(pod(PodStage.BOUND, uid=uid, rank=rank, node=where[rank]))
            case "final" | "succeeded":
                pods.append(replace(done(rank, final=fate == "final", node=where[rank]), uid=uid))
            case "failed":
                pods.append(pod(PodStage.FINISHED, uid=uid, rank=rank, node=where[rank]))
            case "waits":
                pods.append(pod(PodStage.WAITING, uid=f"new-{rank}", rank=rank))
            case _:
                pass  # there is none
    of = replace(OF_THREE, size=len(fates), minimum=len(fates))
    return gang(*pods, of=of, job=tracked(looked), nodes=places(*where.values()))


def looked(life: Life, *components: tuple[str, ...], at: tuple[str, ...] = ()) -> TaggedJob:
    """The record of the job that holds these nodes."""
    uids, per_node = (f"uid-{rank}" for rank in life.fates), life.per_node
    nodes = tuple(node for held in components for node in held)
    if not life.first:
        return record(nodes=nodes, admin_comment=gang_tag(*uids, per_node=per_node, at=at))
    parts = tuple(TagPart(len(held) * per_node, per_node) for held in life.components)
    return record(
        nodes=nodes,
        admin_comment=gang_tag(*uids, parts=parts, at=at),
        parts=tuple(record(nodes=held) for held in components),
    )


@given(lives())
def test_only_nodes_all_of_whose_ranks_are_final_are_given_back(life: Life) -> None:
    fates, where = life.fates, life.where
    for action in given_back(unit_of(fates, looked(life, *life.components), where)):
        left = set(where.values()) - set(action.keep)
        assert left
        assert all(fates[rank] == "final" for rank, node in where.items() if node in left)
        needed = {node for rank, node in where.items() if fates[rank] != "final"}
        for nodes in life.components:
            kept = [node for node in nodes if node in action.keep]
            assert kept == ([node for node in nodes if node in needed] or [nodes[0]])
        assert action.at == tuple(where.values())


@given(lives(), st.data())
def test_every_other_rank_keeps_its_node_afterwards_whatever_becomes_of_its_pod(
    life: Life, data: st.DataObject
) -> None:
    """The next process sees the nodes that are left, and the tag."""
    fates, where = life.fates, life.where
    for action in given_back(unit_of(fates, looked(life, *life.components), where)):
        left = (tuple(it for it in nodes if it in action.keep) for nodes in life.components)
        then = looked(life, *left, at=action.at)
        later = {
            rank: fate
            if fate == "final" and data.draw(st.booleans())
            else ("none" if fate == "final" else data.draw(st.sampled_from(["runs", "waits"])))
            for rank, fate in fates.items()
        }
        if "runs" not in later.values():
            continue
        for reseat in decide(unit_of(later, then, where), NOW):
            if isinstance(reseat, Reseat):
                slots = [node for node in action.keep for _ in range(life.per_node)]
                seated = {seat.rank: slots[slot] for slot, seat in enumerate(reseat.seats)}
                assert {
                    it: where[it] for it in later if later[it] in {"runs", "waits"}
                }.items() <= (seated.items())
                assert read_tag(retagged(then, reseat) or "") is not None
