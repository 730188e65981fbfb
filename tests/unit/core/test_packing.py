"""How alike pods go on nodes: all of them placed, no node overfull, and in bounded time."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.packing import (
    MOST_PARTS,
    Dealing,
    Dealt,
    NodeSize,
    NoRoom,
    Part,
    PodSize,
    deal,
    packable,
    room,
)

LARGE = NodeSize(cpus=64, memory_mib=512_000, gpus=8)
SMALL = NodeSize(cpus=64, memory_mib=512_000, gpus=4)
MOST = 1024


def gpus(count: int) -> PodSize:
    return PodSize(cpus=4, memory_mib=1000, gpus=count, devices=True)


def cpus(count: int) -> PodSize:
    return PodSize(cpus=count, memory_mib=1000)


def dealt(*parts: tuple[int, int]) -> Dealt:
    return Dealt(tuple(Part(*part) for part in parts))


@pytest.mark.parametrize(
    ("pods", "pod", "nodes", "expected"),
    [
        (8, gpus(1), {LARGE: 4}, dealt((1, 8))),
        (16, gpus(2), {LARGE: 8}, dealt((4, 4))),
        # A whole number on each node, where that takes no more nodes.
        (10, gpus(1), {LARGE: 4}, dealt((2, 5))),
        (7, gpus(2), {LARGE: 4}, dealt((1, 4), (1, 3))),
        (17, gpus(2), {LARGE: 8}, dealt((4, 4), (1, 1))),
        (5, gpus(3), {LARGE: 8}, dealt((2, 2), (1, 1))),
        (8, gpus(8), {LARGE: 8}, dealt((8, 1))),
        # As many large nodes as there are, or small ones.
        (8, gpus(2), {LARGE: 2, SMALL: 4}, dealt((2, 4))),
        (12, gpus(2), {LARGE: 2, SMALL: 6}, dealt((6, 2))),
        (12, gpus(2), {LARGE: 2, SMALL: 2}, dealt((2, 4), (2, 2))),
        (11, gpus(2), {LARGE: 2, SMALL: 2}, dealt((2, 4), (1, 2), (1, 1))),
        (9, gpus(1), {LARGE: 1}, NoRoom(8)),
        (2, gpus(16), {LARGE: 100}, NoRoom(0)),
        (2, gpus(1), {}, NoRoom(0)),
        (6, cpus(8), {LARGE: 4}, dealt((1, 6))),
        (513, cpus(1), {LARGE: 100}, dealt((9, 57))),
        (1, cpus(1), {LARGE: 1}, dealt((1, 1))),
    ],
)
def test_fewest_nodes_then_most_even(
    pods: int, pod: PodSize, nodes: dict[NodeSize, int], expected: Dealing
) -> None:
    assert deal(pods, pod, nodes, pods_per_node=MOST) == expected


def test_limit_of_pods_on_a_node_is_kept() -> None:
    assert deal(8, cpus(1), {LARGE: 8}, pods_per_node=1) == dealt((8, 1))
    assert deal(8, gpus(1), {LARGE: 8}, pods_per_node=3) == dealt((2, 3), (1, 2))
    assert deal(8, gpus(1), {LARGE: 4}, pods_per_node=1) == NoRoom(4)


sizes = st.builds(
    NodeSize,
    cpus=st.integers(1, 64),
    memory_mib=st.integers(1, 100),
    gpus=st.integers(0, 8),
)
pod_sizes = st.builds(
    PodSize, cpus=st.integers(1, 16), memory_mib=st.integers(1, 20), gpus=st.integers(0, 3)
)
partitions = st.dictionaries(sizes, st.integers(0, 6), max_size=6)
limits = st.just(MOST) | st.integers(1, 10)


@given(st.integers(1, 60), pod_sizes, partitions, limits)
def test_all_pods_are_placed_and_no_node_is_overfull(
    pods: int, pod: PodSize, nodes: dict[NodeSize, int], limit: int
) -> None:
    found = deal(pods, pod, nodes, pods_per_node=limit)
    rooms = Counter[int]()
    for size, count in nodes.items():
        rooms[min(room(pod, size), limit)] += count
    total = sum(rooms.elements())
    match found:
        case NoRoom(there):
            assert there == total < pods
        case Dealt(parts):
            assert sum(part.pods for part in parts) == pods
            assert 1 <= len(parts) <= MOST_PARTS
            _fits(parts, rooms)


def _fits(parts: tuple[Part, ...], rooms: Counter[int]) -> None:
    """The fullest node takes the largest that is left: so they fit, if they do at all."""
    free = sorted(rooms.elements(), reverse=True)
    taken = sorted((p.pods_per_node for p in parts for _ in range(p.nodes)), reverse=True)
    assert len(taken) <= len(free)
    assert all(0 < took <= there for took, there in zip(taken, free, strict=False))


@given(st.integers(2, 60), pod_sizes, partitions, limits)
def test_order_of_the_nodes_does_not_matter(
    pods: int, pod: PodSize, nodes: dict[NodeSize, int], limit: int
) -> None:
    turned = dict(reversed(nodes.items()))
    assert deal(pods, pod, nodes, pods_per_node=limit) == deal(
        pods, pod, turned, pods_per_node=limit
    )


@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 40))
def test_no_way_with_fewer_nodes_was_missed(pods: int, fits: int, count: int) -> None:
    """On nodes of one size, where the fewest are known."""
    node = NodeSize(cpus=fits, memory_mib=fits, gpus=fits)
    found = deal(pods, PodSize(cpus=1, memory_mib=1, gpus=1), {node: count}, pods_per_node=MOST)
    fewest = -(-pods // fits)
    if count < fewest:
        assert found == NoRoom(fits * count)
        return
    assert isinstance(found, Dealt)
    assert sum(part.nodes for part in found.parts) == fewest


@pytest.mark.parametrize("distinct", [1, 8, 10_000])
def test_largest_gang_on_many_nodes_takes_little_time(distinct: int) -> None:
    """Each node could have all the pods, so that no number on each is out of the question."""
    nodes = Counter(
        NodeSize(cpus=2**16 + number % distinct, memory_mib=2**30, gpus=2**16)
        for number in range(10_000)
    )
    began = time.process_time()
    small = PodSize(cpus=1, memory_mib=1, gpus=1)
    assert deal(2**16, small, nodes, pods_per_node=2**16) == dealt((1, 2**16))
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("pods", "pod", "nodes", "most", "expected"),
    [
        (16, cpus(4), {LARGE: 4}, 16, True),
        (64, cpus(4), {LARGE: 4}, 16, True),
        (2, cpus(33), {LARGE: 4}, 16, False),  # one on each node: there is no choice
        (65, cpus(4), {LARGE: 4}, 16, False),  # too many
        (16, cpus(4), {LARGE: 4}, 15, False),  # Slurm does not know the limit
        (16, gpus(1), {LARGE: 4}, 16, False),
        (16, gpus(1), {replace(LARGE, slurmd=True): 4}, 16, True),
        (16, gpus(1), {replace(LARGE, slurmd=True): 4, LARGE: 1}, 16, False),
        (16, cpus(3), {replace(LARGE, threads_per_core=2): 4}, 32, False),
        (16, cpus(4), {replace(LARGE, threads_per_core=2): 4}, 32, True),
        (2, cpus(4), {}, 16, False),
    ],
)
def test_slurm_packs_where_that_is_safe(
    pods: int, pod: PodSize, nodes: dict[NodeSize, int], most: int, expected: bool
) -> None:
    assert packable(pods, pod, nodes, pods_per_node=most) is expected
