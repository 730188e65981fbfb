"""The shapes of a gang: which pods are alike, and which component has slots for which ranks."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.core.edits import digests
from scheduler.core.owner_tag import PACKED, SEVERAL, OwnerTag, TagPart, read_tag
from scheduler.core.shapes import Expected, Size, accepted_by, kinds_of, shapes_of, with_expected
from scheduler.core.slot_choice import Seat
from scheduler.core.tagged import TaggedJob
from slurmapi.model import BaseState, Job, JobState
from tests.unit.core.things import REQUEST

SMALL = Size.of(REQUEST)
LARGE = Size(8, 4096, 2, "gres/gpu:2")
TAG = OwnerTag(
    v=SEVERAL,
    cluster="c",
    scheduler="s",
    namespace="ns",
    unit="train",
    uids=("a", "b", "d"),
    unit_key="key",
    group="gang/train",
    ranks=(0, 1, 2),
    names=("x", "y", "z"),
    asked=dict(digests(REQUEST)),
    parts=(TagPart(1, 1, SMALL.kind), TagPart(2, 2, LARGE.kind)),
)


@given(st.dictionaries(st.integers(0, 30), st.sampled_from([SMALL, LARGE]), min_size=1))
def test_each_seat_is_in_the_shape_of_its_size_in_the_order_of_ranks(
    sizes: dict[int, Size],
) -> None:
    shapes = shapes_of([Seat(rank) for rank in sorted(sizes)], sizes)
    assert sorted(it.rank for shape in shapes for it in shape.seats) == sorted(sizes)
    for shape in shapes:
        ranks = [it.rank for it in shape.seats]
        assert ranks == sorted(ranks)
        assert {sizes[rank] for rank in ranks} == {shape.size}
    assert shapes[0].seats[0].rank == min(sizes)
    assert len({shape.size for shape in shapes}) == len(shapes)


def test_pod_to_come_counts_as_one_like_that_before_it() -> None:
    shapes = shapes_of([Seat(rank) for rank in range(5)], {1: SMALL, 3: LARGE})
    assert [[it.rank for it in shape.seats] for shape in shapes] == [[0, 1, 2], [3, 4]]


@given(
    st.dictionaries(st.integers(0, 12), st.sampled_from([SMALL, LARGE])),
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, SMALL, LARGE])), max_size=4),
)
def test_pods_that_exist_count_as_they_are_and_the_others_as_their_template(
    sizes: dict[int, Size], given_templates: list[tuple[int, Size | None]]
) -> None:
    templates = [Expected(pods, size) for pods, size in given_templates]
    found = with_expected(sizes, templates)
    assert {rank: found[rank] for rank in sizes} == sizes
    first = 0
    for template in templates:
        ranks = range(first, first + template.pods)
        first += template.pods
        there = [sizes[rank] for rank in ranks if rank in sizes]
        expected = there[0] if there else template.size
        for rank in ranks:
            assert found.get(rank) == sizes.get(rank, expected)
    assert found.keys() <= {*sizes, *range(first)}


def test_kind_is_the_same_in_the_tag_of_a_plain_job() -> None:
    plain = msgspec.structs.replace(TAG, parts=())
    assert kinds_of(plain) == (SMALL.kind,) * 3
    assert kinds_of(TAG) == (SMALL.kind, LARGE.kind, LARGE.kind)
    assert kinds_of(msgspec.structs.replace(plain, asked={})) == ("",) * 3
    assert SMALL.kind != LARGE.kind


def test_tag_of_a_plain_job_has_no_parts() -> None:
    assert "parts" not in msgspec.structs.replace(TAG, parts=()).encode()
    assert read_tag(TAG.encode()) == TAG


@pytest.mark.parametrize(
    "parts",
    [
        (TagPart(3),),
        (TagPart(1), TagPart(1)),
        (TagPart(1), TagPart(3)),
        (TagPart(0), TagPart(3)),
        (TagPart(1), TagPart(2, -1)),
        (TagPart(0, PACKED), TagPart(3)),
        (TagPart(2, 2), TagPart(1, 2)),
        (TagPart(-1), TagPart(4)),
        (*(TagPart(1),) * 3, *(TagPart(0),) * 200),
    ],
)
def test_parts_that_do_not_add_up_are_not_believed(parts: tuple[TagPart, ...]) -> None:
    assert read_tag(TAG.encode(parts=parts)) is None


def test_any_size_of_the_job_was_accepted() -> None:
    for size in (SMALL, LARGE):
        request = size.applied(REQUEST)
        assert dict(accepted_by(TAG, request)) == dict(digests(request))
    other = replace(REQUEST, cpus=99)
    assert dict(accepted_by(TAG, other)) == TAG.asked


def test_job_without_a_component_of_its_tag_has_ended_in_part() -> None:
    runs = JobState(BaseState.RUNNING)
    part = Job(job_id=1, name="x", state=runs, nodes=("n1",))
    whole = Job(job_id=1, name="x", state=runs, admin_comment=TAG.encode(), parts=(part, part))
    assert TaggedJob.of(whole).state == runs
    for parts in ((), (part,)):
        state = TaggedJob.of(replace(whole, parts=parts)).state
        assert (state.ended, state.partial) == (True, True)
