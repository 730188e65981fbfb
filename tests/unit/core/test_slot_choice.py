"""Every pod of a unit gets one slot of the allocation, and keeps it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.slot_choice import Sitter, seats, slots_of

ROOMS = st.dictionaries(
    st.sampled_from(["n1", "n2", "n10", "gpu-3", "x"]), st.integers(0, 3), min_size=1
)


@st.composite
def units(draw: st.DrawFn) -> tuple[tuple[Sitter, ...], tuple[str, ...]]:
    """Pods on no node yet, and at least as many slots. Ranks may have gaps."""
    slots = slots_of(draw(ROOMS))
    ranks = draw(st.sets(st.integers(0, 20), max_size=len(slots)))
    names = draw(st.permutations([f"uid-{rank}" for rank in ranks]))
    return tuple(Sitter(uid=uid, rank=rank) for uid, rank in zip(names, ranks, strict=True)), slots


def ranks_by_slot(sitters: tuple[Sitter, ...], found: dict[str, int]) -> tuple[int, ...]:
    """The table of ranks as the tag of the job has it."""
    by_slot = sorted(sitters, key=lambda it: found[it.uid])
    return tuple(it.rank for it in by_slot)


@given(units(), st.data())
def test_each_pod_gets_a_slot_of_its_kind_and_keeps_it(
    unit: tuple[tuple[Sitter, ...], tuple[str, ...]], data: st.DataObject
) -> None:
    sitters, slots = unit
    ordered = sorted(sitters, key=lambda it: it.rank)
    kinds = [data.draw(st.sampled_from("ab")) for _ in slots]
    dealt = data.draw(st.permutations(range(len(slots))))[: len(sitters)]
    mine = dict(zip((it.uid for it in ordered), (kinds[slot] for slot in dealt), strict=True))
    sitters = tuple(replace(it, kind=mine[it.uid]) for it in sitters)
    found = seats(sitters, slots, kinds=kinds)
    assert len(found) == len(set(found.values())) == len(sitters)
    assert all(kinds[slot] == mine[uid] for uid, slot in found.items())
    for kind in "ab":
        of_kind = [found[it.uid] for it in ordered if mine[it.uid] == kind]
        assert of_kind == sorted(of_kind)
    ranks = {slot: it.rank for it in sitters for slot in (found[it.uid],)}
    former = tuple(ranks.get(slot, 100 + slot) for slot in range(len(slots)))
    again = data.draw(st.permutations(sitters))
    assert seats(again, slots, former=former, kinds=kinds) == found


def test_pod_whose_rank_has_a_slot_of_another_kind_gets_none() -> None:
    sitters = (Sitter(uid="x", rank=0, kind="b"), Sitter(uid="y", rank=1, kind="b"))
    assert seats(sitters, ("n1", "n2"), former=(0, 1), kinds=("a", "b")) == {"y": 1}
    assert seats(sitters, ("n1", "n2", "n3"), former=(0, 1), kinds=("a", "b", "b")) == {"y": 1}


def test_node_has_as_many_slots_as_it_has_room() -> None:
    assert slots_of({"n10": 1, "n9": 2, "n3": 0}) == ("n10", "n9", "n9")


@given(units())
def test_ranks_follow_the_order_of_the_slots(
    unit: tuple[tuple[Sitter, ...], tuple[str, ...]],
) -> None:
    sitters, slots = unit
    found = seats(sitters, slots)
    ordered = sorted(sitters, key=lambda it: it.rank)
    assert [found[it.uid] for it in ordered] == list(range(len(sitters)))


@given(units(), st.data())
def test_no_slot_is_shared_and_no_node_is_overfull(
    unit: tuple[tuple[Sitter, ...], tuple[str, ...]], data: st.DataObject
) -> None:
    sitters, slots = unit
    anywhere = st.sampled_from(["", "", *slots, "elsewhere"])
    sitters = tuple(replace(it, node=data.draw(anywhere)) for it in sitters)
    former = tuple(data.draw(st.permutations(range(21))))
    found = seats(sitters, slots, former=former)
    coming = [it for it in sitters if not it.node]
    on_nodes = Counter(it.node for it in sitters if it.node)
    used = sum(min(number, slots.count(node)) for node, number in on_nodes.items())
    assert len([it for it in coming if it.uid in found]) == min(len(coming), len(slots) - used)
    assert len(set(found.values())) == len(found)
    per_node = Counter(slots[slot] for slot in found.values())
    assert all(number <= slots.count(node) for node, number in per_node.items())
    assert all(it.node in {"", slots[found[it.uid]]} for it in sitters if it.uid in found)


@given(units(), st.data())
def test_each_pod_keeps_its_slot_through_a_restart(
    unit: tuple[tuple[Sitter, ...], tuple[str, ...]], data: st.DataObject
) -> None:
    """The next process sees the tag, and the Nodes of those that were bound by then."""
    sitters, slots = unit
    found = seats(sitters, slots)
    bound = [data.draw(st.booleans()) for _ in sitters]
    again = tuple(
        replace(it, node=slots[found[it.uid]] if is_bound else "")
        for it, is_bound in zip(sitters, bound, strict=True)
    )
    shuffled = data.draw(st.permutations(again))
    assert seats(shuffled, slots, former=ranks_by_slot(sitters, found)) == found


@given(units(), st.data())
def test_pod_that_comes_again_gets_the_slot_of_its_rank(
    unit: tuple[tuple[Sitter, ...], tuple[str, ...]], data: st.DataObject
) -> None:
    """Those that stay keep theirs, and so do those that are missing: they sit on no known node."""
    sitters, slots = unit
    found = seats(sitters, slots)
    former = ranks_by_slot(sitters, found)
    fates = [data.draw(st.sampled_from(["stays", "missing", "anew", "gone"])) for _ in sitters]
    now = {
        it.rank: replace(
            it,
            uid=f"{it.uid}-anew" if fate == "anew" else it.uid,
            node=slots[found[it.uid]] if fate == "stays" else "",
        )
        for it, fate in zip(sitters, fates, strict=True)
        if fate != "gone"
    }
    again = seats(now.values(), slots, former=former)
    assert {now[it.rank].uid: found[it.uid] for it in sitters if it.rank in now} == again


@pytest.mark.parametrize(
    ("slots", "former", "expected"),
    [
        (("n1", "n2"), (), {"b": 1, "c": 0}),
        (("n1", "n2"), (7, 1), {"b": 1, "c": 0}),
        (("n1", "n1", "n2"), (2, 7, 1), {"b": 2, "c": 0}),
        (("n1",), (), {"b": 0}),
        ((), (), {}),
    ],
)
def test_pod_that_waits_gets_a_slot_beside_the_one_that_runs(slots, former, expected) -> None:
    runs, waits = Sitter(uid="b", rank=1, node="n2"), Sitter(uid="c", rank=2)
    if len(slots) < 2:
        runs = replace(runs, node="n1" if slots else "")
    assert seats((waits, runs), slots, former=former) == expected


def test_pod_on_a_node_that_the_job_does_not_hold_takes_no_slot_from_others() -> None:
    assert seats((Sitter(uid="a", rank=0, node="n9"), Sitter(uid="b", rank=1)), ("n1",)) == {"b": 0}
