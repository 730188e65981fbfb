"""How many pods a gang has, as its object says, and in which order they come."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from annotations.problems import Problem
from scheduler.core.gang_objects import GroupObject, Unserved
from scheduler.core.gang_shape import GangShape, NoGang, blocks_of, rank_of, shape_of
from scheduler.core.gang_sources import MOST_GANG_PODS, GroupRef, Membership, Source
from scheduler.core.owner_tag import MOST_RANKS
from scheduler.kube.errors import KubeGarbled
from scheduler.kube.group_wire import decode_group

JOB: Final = GroupRef("batch/v1", "jobs", "ml", "x")
JOBSET: Final = GroupRef("jobset.x-k8s.io/v1alpha2", "jobsets", "ml", "x")
LWS: Final = GroupRef("leaderworkerset.x-k8s.io/v1", "leaderworkersets", "ml", "x")
PODGROUP: Final = GroupRef("scheduling.k8s.io/v1alpha2", "podgroups", "ml", "x")
PLUGINS: Final = GroupRef("scheduling.x-k8s.io/v1alpha1", "podgroups", "ml", "x")
REFS: Final = (JOB, JOBSET, LWS, PODGROUP, PLUGINS)
DELETED: Final = {"deletionTimestamp": "2030-01-01T00:00:00Z"}


def group(ref: GroupRef, spec: Any, *, status: Any = None, **meta: Any) -> GroupObject:
    """The object, as the API server would send it."""
    sent = {"metadata": {"name": ref.name, "uid": "u", **meta}, "spec": spec}
    return decode_group(ref, msgspec.json.encode({**sent, "status": status or {}}))


def member(ref: GroupRef = JOB, **fields: Any) -> Membership:
    return Membership(
        source=Source.JOB, namespace="ml", name="x", identity="u", object=ref, **fields
    )


def shape(ref: GroupRef, spec: Any, **rest: Any) -> GangShape | NoGang | Problem:
    return shape_of(member(ref), group(ref, spec, **rest))


def part(name: str, jobs: int | None, pods: int, **fields: Any) -> dict[str, Any]:
    template = {"spec": {"parallelism": pods, "completions": pods}}
    return {"name": name, "replicas": jobs, "template": template, **fields}


def after(name: str, status: str) -> list[dict[str, str]]:
    return [{"name": name, "status": status}]


@pytest.mark.parametrize(
    ("spec", "size"),
    [
        ({"parallelism": 4}, 4),
        ({"parallelism": 4, "completions": None}, 4),
        ({"parallelism": 4, "completions": 4}, 4),
        ({"parallelism": 4, "completions": 2}, 2),
        ({"parallelism": 4, "completions": 5}, None),
        ({"parallelism": 4, "completions": 1}, None),
        ({"parallelism": 1, "completions": 1}, None),
        ({"parallelism": 1, "completions": 8}, None),
        ({"parallelism": 0}, None),
        ({"parallelism": -3}, None),
        ({"completions": 2}, None),
        ({}, None),
    ],
)
def test_batch_job_of_fixed_size_is_a_gang(spec: dict[str, Any], size: int | None) -> None:
    found = shape(JOB, spec)
    if size is None:
        assert isinstance(found, NoGang)
        assert "'x'" in found.why
        assert not found.instead
    else:
        assert found == GangShape(size=size, minimum=size)


def test_work_queue_says_its_numbers() -> None:
    found = shape(JOB, {"parallelism": 4, "completions": 100})
    assert isinstance(found, NoGang)
    assert "100 completions" in found.why
    assert "4 at a time" in found.why


@pytest.mark.parametrize(
    ("rest", "over"),
    [
        ({}, False),
        ({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "FailureTarget", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "Complete", "status": "False"}]}}, False),
        ({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}}, False),
        (DELETED, True),
    ],
)
def test_job_that_has_ended_expects_no_pods(rest: dict[str, Any], over: bool) -> None:
    found = shape(JOB, {"parallelism": 2}, **rest)
    assert found == GangShape(size=2, minimum=2, over=over)


@pytest.mark.parametrize(
    ("completed", "done"),
    [
        ("", set()),
        ("0", {0}),
        ("1,3-5", {1, 3}),
        ("0-3", {0, 1, 2, 3}),
        ("2-999999999,7", {2, 3}),
        ("x,-1-", {1}),
    ],
)
def test_indexes_that_have_completed_need_no_pod(completed: str, done: set[int]) -> None:
    found = shape(JOB, {"parallelism": 4}, status={"completedIndexes": completed})
    assert found == GangShape(size=4, minimum=4, done=frozenset(done))


@pytest.mark.parametrize(
    ("ref", "spec"),
    [
        (JOB, {"parallelism": 2}),
        (JOBSET, {"replicatedJobs": [part("a", 1, 2)]}),
    ],
)
def test_suspended_object_expects_no_pods(ref: GroupRef, spec: dict[str, Any]) -> None:
    for suspended in (True, False, None):
        found = shape(ref, {**spec, "suspend": suspended})
        assert isinstance(found, GangShape)
        assert found.over == bool(suspended)


@pytest.mark.parametrize(
    ("spec", "size", "minimum"),
    [
        ({"replicatedJobs": [part("a", 2, 3)]}, 6, 6),
        ({"replicatedJobs": [part("a", None, 3)]}, 3, 3),
        ({"replicatedJobs": [part("a", 1, 1), part("b", 2, 4)]}, 9, 9),
        (
            {
                "replicatedJobs": [part("a", 1, 1), part("b", 2, 4)],
                "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            },
            9,
            9,
        ),
        (
            {
                "replicatedJobs": [part("a", 1, 1), part("b", 2, 4)],
                "startupPolicy": {"startupPolicyOrder": "InOrder"},
            },
            9,
            1,
        ),
        (
            {
                "replicatedJobs": [part("a", 0, 5), part("b", 2, 4), part("c", 1, 1)],
                "startupPolicy": {"startupPolicyOrder": "InOrder"},
            },
            9,
            8,
        ),
        (
            {
                "replicatedJobs": [
                    part("a", 1, 2),
                    part("b", 1, 3),
                    part("c", 1, 4, dependsOn=after("a", "Ready")),
                ]
            },
            9,
            5,
        ),
    ],
)
def test_jobset_has_the_pods_of_all_its_jobs(spec: dict[str, Any], size: int, minimum: int) -> None:
    found = shape(JOBSET, spec)
    assert isinstance(found, GangShape)
    assert (found.size, found.minimum) == (size, minimum)
    assert found.in_steps == (minimum < size)
    assert not found.over


@pytest.mark.parametrize(
    ("rest", "over"),
    [
        ({"status": {"conditions": [{"type": "Completed", "status": "True"}]}}, True),
        ({"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, True),
        (
            {"status": {"conditions": [{"type": "StartupPolicyCompleted", "status": "True"}]}},
            False,
        ),
        (DELETED, True),
    ],
)
def test_jobset_that_has_ended_expects_no_pods(rest: dict[str, Any], over: bool) -> None:
    found = shape(JOBSET, {"replicatedJobs": [part("a", 1, 2)]}, **rest)
    assert isinstance(found, GangShape)
    assert found.over == over


@pytest.mark.parametrize(
    "parts",
    [
        [part("a", 1, 2), part("b", 1, 2, dependsOn=after("a", "Complete"))],
        [
            part("a", 1, 2),
            {"name": "b", "template": {"spec": {"parallelism": 2, "completions": 9}}},
        ],
    ],
    ids=["complete", "queue"],
)
def test_jobs_of_a_set_that_do_not_run_together_are_gangs_of_their_own(
    parts: list[dict[str, Any]],
) -> None:
    found = shape(JOBSET, {"replicatedJobs": parts})
    assert isinstance(found, NoGang)
    assert found.instead == (Source.JOB,)
    assert "'b'" in found.why


@pytest.mark.parametrize("parts", [[], [part("a", 1, 1)], [part("a", 5, 0)], [part("a", -1, 5)]])
def test_jobset_of_one_pod_is_no_gang(parts: list[dict[str, Any]]) -> None:
    found = shape(JOBSET, {"replicatedJobs": parts})
    assert isinstance(found, NoGang)
    assert not found.instead


@pytest.mark.parametrize(("policy", "minimum"), [("LeaderReady", 1), ("LeaderCreated", 4), ("", 4)])
def test_workers_may_come_when_their_leader_is_ready(policy: str, minimum: int) -> None:
    spec = {"leaderWorkerTemplate": {"size": 7}, "startupPolicy": policy}
    found = shape_of(member(LWS, size=4), group(LWS, spec))
    assert found == GangShape(size=4, minimum=minimum)
    assert shape_of(member(LWS, size=4), group(LWS, spec, **DELETED)) == GangShape(
        size=4, minimum=minimum, over=True
    )


def test_workers_of_a_set_that_has_a_topology_for_itself_come_when_their_leader_has_a_node() -> (
    None
):
    spec = {"leaderWorkerTemplate": {"size": 4}, "startupPolicy": "LeaderCreated"}
    alone = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "rack"}
    found = shape_of(member(LWS, size=4), group(LWS, spec, annotations=alone))
    assert found == GangShape(size=4, minimum=1)


_ALONE: Final = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
_LABELLED: Final = {"alpha.jobset.sigs.k8s.io/node-selector": "true"}


@pytest.mark.parametrize(
    ("of_set", "of_part", "minimum"),
    [
        ({}, {}, 2 * 3 + 4),
        (_ALONE, {}, 2 * 1 + 1),
        ({}, _ALONE, 2 * 1 + 4),
        (_ALONE | _LABELLED, {}, 2 * 3 + 4),
        ({}, _ALONE | _LABELLED, 2 * 3 + 4),
        (_ALONE, _ALONE | _LABELLED, 2 * 3 + 1),
        (_LABELLED, {}, 2 * 3 + 4),
        (_ALONE, {"note": "x"}, 2 * 1 + 1),
    ],
)
def test_other_pods_of_a_job_that_has_a_topology_for_itself_come_when_the_first_has_a_node(
    of_set: dict[str, str], of_part: dict[str, str], minimum: int
) -> None:
    first = part("a", 2, 3)
    first["template"]["metadata"] = {"annotations": of_part}
    found = shape(JOBSET, {"replicatedJobs": [first, part("b", 1, 4)]}, annotations=of_set)
    assert isinstance(found, GangShape)
    assert (found.size, found.minimum) == (10, minimum)


def test_job_of_a_set_that_is_a_gang_of_its_own_and_has_a_topology_begins_with_one_pod() -> None:
    found = shape(JOB, {"parallelism": 4}, annotations=_ALONE)
    assert found == GangShape(size=4, minimum=1)
    found = shape(JOB, {"parallelism": 4}, annotations=_ALONE | _LABELLED)
    assert found == GangShape(size=4, minimum=4)


def test_annotations_that_are_null_say_nothing() -> None:
    found = shape(JOB, {"parallelism": 4}, annotations=None)
    assert found == GangShape(size=4, minimum=4)


@pytest.mark.parametrize(
    ("ref", "spec", "size"),
    [
        (PODGROUP, {"schedulingPolicy": {"gang": {"minCount": 3}}}, 3),
        (PODGROUP, {"schedulingPolicy": {"gang": {"minCount": 1}}}, None),
        (PODGROUP, {"schedulingPolicy": {"basic": {}}}, None),
        (PODGROUP, {}, None),
        (PLUGINS, {"minMember": 3, "scheduleTimeoutSeconds": 10}, 3),
        (PLUGINS, {"minMember": 1}, None),
        (PLUGINS, {}, None),
    ],
)
def test_pod_group_says_how_many_start_together(
    ref: GroupRef, spec: dict[str, Any], size: int | None
) -> None:
    found = shape(ref, spec)
    if size is None:
        assert isinstance(found, NoGang)
        assert not found.instead
    else:
        expected = GangShape(size=size, minimum=size, open=True)
        assert found == expected
        assert shape(ref, spec, **DELETED) == replace(expected, over=True)


def test_kind_that_the_cluster_does_not_have_makes_no_gang() -> None:
    found = shape_of(member(), Unserved("scheduling.x-k8s.io/v1alpha1", "podgroups"))
    assert isinstance(found, NoGang)
    assert "podgroups of scheduling.x-k8s.io/v1alpha1" in found.why


_HUGE: Final = 2**31 - 1


@pytest.mark.parametrize(
    ("ref", "spec"),
    [
        (JOB, {"parallelism": MOST_GANG_PODS + 1}),
        (JOB, {"parallelism": _HUGE}),
        (JOBSET, {"replicatedJobs": [part("a", _HUGE, _HUGE)] * 1000}),
        (PODGROUP, {"schedulingPolicy": {"gang": {"minCount": _HUGE}}}),
        (PLUGINS, {"minMember": _HUGE}),
    ],
)
def test_gang_that_is_too_large_is_a_problem(ref: GroupRef, spec: dict[str, Any]) -> None:
    found = shape(ref, spec)
    assert isinstance(found, Problem)
    assert str(MOST_GANG_PODS) in found.expected
    assert "gang: none" in found.expected


_BLOCKS: Final = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=5)


@given(_BLOCKS)
def test_ranks_of_a_jobset_count_from_zero_without_a_gap(blocks: list[tuple[int, int]]) -> None:
    spec = {"replicatedJobs": [part(f"p{i}", *it) for i, it in enumerate(blocks)]}
    found = shape(JOBSET, spec)
    places = [
        (sum(jobs for jobs, _ in blocks[:i]) + job, own)
        for i, (jobs, pods) in enumerate(blocks)
        for job in range(jobs)
        for own in range(pods)
    ]
    assert all(before < then for before, then in pairwise(places))
    if isinstance(found, NoGang):
        assert len(places) < 2
        return
    assert isinstance(found, GangShape)
    ranks = [rank_of(member(JOBSET, place=it), found) for it in places]
    assert ranks == list(range(found.size))


@given(_BLOCKS, st.tuples(st.integers(0, MOST_RANKS), st.integers(0, MOST_RANKS)))
def test_rank_is_below_the_size_or_unknown(
    blocks: list[tuple[int, int]], place: tuple[int, int]
) -> None:
    size = sum(jobs * pods for jobs, pods in blocks)
    found = GangShape(size=size, minimum=size, blocks=blocks_of(blocks))
    rank = rank_of(member(JOBSET, place=place), found)
    assert rank is None or 0 <= rank < size


def test_replicated_jobs_without_pods_cost_nothing() -> None:
    """The API server takes ten thousand of them. To find the ranks of 1024 pods took 630 ms."""
    parts = [(0, 1), (1, 0)] * 5000
    blocks = blocks_of([*parts, (2, 3), *parts, (1, 1)])
    assert blocks == ((5000, 0, 2, 3), (10_002, 6, 1, 1))


def test_rank_that_a_pod_says_is_its_rank() -> None:
    assert rank_of(member(rank=3), GangShape(size=4, minimum=4)) == 3
    assert rank_of(member(), GangShape(size=4, minimum=4)) is None


@pytest.mark.parametrize("ref", REFS, ids=lambda it: it.api_version)
def test_answer_about_something_else_is_garbled(ref: GroupRef) -> None:
    for sent in (
        b"{}",
        b"[]",
        b'{"metadata": {}}',
        b'{"metadata": {"name": "y", "uid": "u"}}',
        b"",
    ):
        with pytest.raises(KubeGarbled):
            decode_group(ref, sent)


@pytest.mark.parametrize("ref", REFS, ids=lambda it: it.api_version)
def test_object_without_fields_is_no_gang(ref: GroupRef) -> None:
    assert isinstance(shape(ref, {}), NoGang)
