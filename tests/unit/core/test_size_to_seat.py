"""The whole way of a gang: sizes of pods, components, the owner tag, nodes from Slurm, seats.

Each link has properties of its own (`test_shapes.py`, `test_packing.py`, `test_seats.py`,
`test_seating.py`). Here they are joined as `execute/send.py` joins them, with a Slurm that gives
each component any nodes that have room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from annotations import JobRequest
from scheduler.core.facts import GangFacts, PodFacts, PodStage, UnitFacts
from scheduler.core.owner_tag import PACKED, TagPart
from scheduler.core.packing import (
    MOST_PARTS,
    Dealt,
    NodeSize,
    Packed,
    Part,
    PodSize,
    deal,
    packable,
    room,
)
from scheduler.core.seating import Seating, reseated, retagged, seating
from scheduler.core.shapes import PodShape, Size, shapes_of
from scheduler.core.slot_choice import Seat
from scheduler.core.tagged import TaggedJob
from scheduler.execute.placeholder import submission
from slurmapi.components import joint_job
from slurmapi.model import BaseState, Job, JobState
from tests.unit.core.things import GANG, JOB, NOW, OURS, facts, tracked

SIZES: Final = (
    Size(1, 1024),
    Size(4, 2048),
    Size(4, 4096),
    Size(2, 1024, 1, "gres/gpu:1"),
    Size(2, 1024, 2, "gres/gpu:2"),
)
KINDS: Final = (NodeSize(cpus=8, memory_mib=8192), NodeSize(cpus=16, memory_mib=9000, gpus=4))
RUNNING: Final = JobState(BaseState.RUNNING)


@dataclass(frozen=True)
class Component:
    """So many pods of one size, as Slurm is asked for them: packed, or so many on each node."""

    size: Size
    part: Part | Packed

    @property
    def tag(self) -> TagPart:
        """How the owner tag tells it."""
        per_node = self.part.pods_per_node if isinstance(self.part, Part) else PACKED
        return TagPart(self.part.pods, per_node, self.size.kind)


@dataclass(frozen=True)
class Life:
    """A gang whose job runs, on nodes of these sizes."""

    sizes: Mapping[int, Size]
    nodes: Mapping[str, NodeSize]
    components: Sequence[Component]
    record: TaggedJob


def components_of(
    shapes: Sequence[PodShape], nodes: Mapping[str, NodeSize], most: int
) -> list[Component]:
    """As `Sender` does it: each shape is dealt out, unless that makes too many components."""
    found = [Component(it.size, part) for it in shapes for part in parts_of(it, nodes, most)]
    if len(found) <= MOST_PARTS:
        return found
    return [Component(it.size, Part(len(it.seats), 1)) for it in shapes]


def parts_of(
    shape: PodShape, nodes: Mapping[str, NodeSize], most: int
) -> tuple[Part | Packed, ...]:
    pods, pod = len(shape.seats), pod_size(shape.size)
    if pods > 1 and packable(pods, pod, Counter(nodes.values()), pods_per_node=most):
        return (Packed(pods),)
    found = deal(pods, pod, Counter(nodes.values()), pods_per_node=most)
    return found.parts if isinstance(found, Dealt) else (Part(pods, 1),)


def pod_size(size: Size) -> PodSize:
    return PodSize(
        cpus=size.cpus, memory_mib=size.memory_mib, gpus=size.gpus, devices=size.gpus > 0
    )


def has_room(node: NodeSize, size: Size, pods: int) -> bool:
    return (
        size.cpus * pods <= node.cpus
        and size.memory_mib * pods <= node.memory_mib
        and size.gpus * pods <= node.gpus
    )


@st.composite
def lives(draw: st.DrawFn) -> Life:
    """A gang of up to twelve pods, and a Slurm that has started its job somewhere."""
    drawn = draw(st.lists(st.sampled_from(SIZES), min_size=2, max_size=12))
    sizes = dict(enumerate(drawn))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=6, max_size=16))
    nodes = {f"n{number:02}": kind for number, kind in enumerate(kinds)}
    most = draw(st.integers(1, 20))
    seats = tuple(Seat(rank, f"uid-{rank}", f"train-{rank}") for rank in sizes)
    shapes = shapes_of(seats, sizes)
    components = components_of(shapes, nodes, most)
    free = draw(st.permutations(sorted(nodes)))
    held: list[dict[str, int]] = []
    for it in components:
        pods = draw(allocations(it, {node: nodes[node] for node in free}))
        held.append(dict(sorted(pods.items())))  # Slurm's order is that of the names
        free = [node for node in free if node not in held[-1]]
    return Life(sizes, nodes, components, started(sizes, shapes, components, held))


@st.composite
def allocations(
    draw: st.DrawFn, component: Component, free: Mapping[str, NodeSize]
) -> dict[str, int]:
    """How many pods Slurm gives each of these nodes."""
    part, fits = component.part, {it: room(pod_size(component.size), free[it]) for it in free}
    if isinstance(part, Part):
        large = [node for node, pods in fits.items() if pods >= part.pods_per_node]
        assume(len(large) >= part.nodes)
        return dict.fromkeys(large[: part.nodes], part.pods_per_node)
    left, held = part.pods, dict[str, int]()
    for node, pods in fits.items():
        held[node] = draw(st.integers(0, min(left, pods)))  # the rest is in use by others
        left -= held[node]
    assume(not left)
    return {node: pods for node, pods in held.items() if pods}


def started(
    sizes: Mapping[int, Size],
    shapes: Sequence[PodShape],
    components: Sequence[Component],
    held: Sequence[Mapping[str, int]],
) -> TaggedJob:
    """The record of the job that was submitted for these components, and runs on these nodes."""
    parts = [it.tag for it in components]
    submitted = submission(
        sizes[0].applied(JobRequest(cpus=1, memory_mib=1)),
        owner=OURS,
        mode="external",
        namespace="ns",
        name="train",
        key=GANG,
        group="gang/train",
        seats=tuple(seat for shape in shapes for seat in shape.seats),
        per_node=parts[0].per_node,
        parts=parts if len(parts) > 1 else (),
    )
    jobs = [
        Job(
            job_id=JOB + number,
            name=submitted.name,
            state=RUNNING,
            nodes=tuple(pods),
            tasks=part.slots,
            tasks_per_node=part.per_node,
            cpus_per_task=component.size.cpus,
            cpus_by_node={node: n * component.size.cpus for node, n in pods.items()},
            admin_comment="" if number else submitted.admin_comment,
        )
        for number, (component, part, pods) in enumerate(zip(components, parts, held, strict=True))
    ]
    return TaggedJob.of(joint_job(jobs) if len(jobs) > 1 else jobs[0])


def known(life: Life, pods: Sequence[PodFacts], record: TaggedJob) -> UnitFacts:
    gang = GangFacts(name="train", group="gang/train", size=len(life.sizes), minimum=1)
    return facts(*pods, key=GANG, gang=gang, job=tracked(record), missing=())


def pod_of(life: Life, rank: int, *, uid: str = "", node: str = "") -> PodFacts:
    """A pod that waits, or runs on this node."""
    return PodFacts(
        uid=uid or f"uid-{rank}",
        namespace="ns",
        name=f"train-{rank}",
        stage=PodStage.BOUND if node else PodStage.WAITING,
        node=node,
        rank=rank,
        size=life.sizes[rank],
    )


def dealt(life: Life, pods: Sequence[PodFacts], record: TaggedJob) -> dict[int, str]:
    """The node of each rank. AssertionError if anything about that is wrong."""
    found = seating(known(life, pods, record), record, NOW)
    assert isinstance(found, Seating), found
    assert (found.gone, found.unlike) == (frozenset(), frozenset())
    # The slot of a rank without a pod is kept for the pod that the tag names.
    assert {it.uid for it in pods} <= set(found.taken)
    assert len(set(found.taken.values())) == len(found.taken)
    ranks = {found.taken[it.uid]: it.rank for it in pods}
    in_order_of_ranks(life, ranks, found.slots)
    return {rank: found.slots[slot] for slot, rank in ranks.items()}


def in_order_of_ranks(life: Life, ranks: Mapping[int, int], slots: Sequence[str]) -> None:
    """Each component has pods of its size in the order of ranks, on nodes of its own with room."""
    first, seen = 0, set[str]()
    for it in life.components:
        own = range(first, first + it.part.pods)
        first += it.part.pods
        there = [ranks[slot] for slot in own if slot in ranks]
        assert there == sorted(there)
        assert {life.sizes[rank] for rank in there} <= {it.size}
        on_node = Counter(slots[slot] for slot in own)
        assert seen.isdisjoint(on_node)
        seen |= set(on_node)
        assert all(has_room(life.nodes[node], it.size, pods) for node, pods in on_node.items())
    assert first == len(slots) == len(life.sizes)


@given(lives())
@settings(max_examples=200)
def test_each_pod_has_one_slot_of_its_size_on_a_node_with_room(life: Life) -> None:
    dealt(life, [pod_of(life, rank) for rank in life.sizes], life.record)


@given(lives(), st.data())
@settings(max_examples=200)
def test_pods_that_come_again_get_their_slots_also_from_the_next_process(
    life: Life, data: st.DataObject
) -> None:
    """All that a process knows is the record with its tag, and the pods with their nodes."""
    where = dealt(life, [pod_of(life, rank) for rank in life.sizes], life.record)
    record, uids = life.record, {rank: f"uid-{rank}" for rank in life.sizes}
    for turn in range(3):
        anew = data.draw(st.sets(st.sampled_from(sorted(life.sizes))))
        bound = data.draw(st.sets(st.sampled_from(sorted(anew)))) if anew else set[int]()
        uids |= {rank: f"again-{turn}-{rank}" for rank in anew}
        waiting = [pod_of(life, rank, uid=uids[rank]) for rank in sorted(anew)]
        runs = [
            pod_of(life, rank, uid=uids[rank], node=node)
            for rank, node in where.items()
            if rank not in anew
        ]
        away = data.draw(st.sets(st.sampled_from(waiting), max_size=3)) if waiting else set()
        here = [*(it for it in waiting if it not in away), *runs]
        assert dealt(life, here, record) == {it.rank: where[it.rank] for it in here}
        assert dealt(life, [*waiting, *runs], record) == where
        record = named(life, waiting, runs, record)
        # The process may die when it has bound some of them.
        half = [replace(it, stage=PodStage.BOUND, node=where[it.rank]) for it in waiting]
        some = [it for it in half if it.rank in bound]
        rest = [it for it in waiting if it.rank not in bound]
        assert dealt(life, [*some, *rest, *runs], record) == where


def named(
    life: Life, waiting: Sequence[PodFacts], runs: Sequence[PodFacts], record: TaggedJob
) -> TaggedJob:
    """The record once its tag names these pods in their slots."""
    unit = known(life, [*waiting, *runs], record)
    found = seating(unit, record, NOW)
    assert isinstance(found, Seating)
    change = reseated(unit, record, found, waiting)
    if change is None:
        assert not waiting
        return record
    comment = retagged(record, change)
    assert comment is not None
    parts = [replace(it, admin_comment="" if at else comment) for at, it in enumerate(record.parts)]
    return TaggedJob.of(replace(joint_job(parts) if parts else record, admin_comment=comment))
