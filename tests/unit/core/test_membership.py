"""Which pods form a gang: what each source says of a pod, and what is not believed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotations.keys import DEFINITIONS
from annotations.problems import NOT_SET, Problem
from annotations.value_kinds import MOST_IN_GANG
from scheduler.core import gang_sources as keys
from scheduler.core.gang_sources import (
    ALL_SOURCES,
    GroupRef,
    GroupView,
    Maker,
    Membership,
    Outsider,
    Source,
)
from scheduler.core.membership import membership
from scheduler.core.owner_tag import MOST_RANKS

PREFIXES: Final = ("sunk.coreweave.com/", "slurm.example.org/")
GANG, SIZE, RANK = (f"{PREFIXES[0]}{it}" for it in ("gang", "gang-size", "gang-rank"))
JOB: Final = Maker("Job", "batch/v1", "train", "uid-of-job")
LEADERS: Final = Maker("StatefulSet", "apps/v1", "vllm", "uid-of-leaders")
WORKERS: Final = Maker("StatefulSet", "apps/v1", "vllm-2", "uid-of-workers")
CHILD: Final = Maker("Job", "batch/v1", "set-workers-1", "uid-of-child")
STRANGER: Final = Maker("ReplicaSet", "apps/v1", "web", "uid-of-web")


def pod(**fields: Any) -> GroupView:
    return GroupView(**{"namespace": "ml", "name": "p", "prefixes": PREFIXES, **fields})


def found(view: GroupView, *sources: Source) -> Membership:
    it = membership(view, sources or ALL_SOURCES)
    assert isinstance(it, Membership), it
    return it


def problem(view: GroupView, *sources: Source) -> Problem:
    it = membership(view, sources or ALL_SOURCES)
    assert isinstance(it, Problem), it
    return it


OF_JOB: Final = pod(
    labels={keys.JOB_NAME: "train", keys.JOB_UID: "uid-of-job"},
    annotations={keys.COMPLETION_INDEX: "3"},
    controller=JOB,
)
OF_LWS: Final = pod(
    labels={
        keys.LWS_NAME: "vllm",
        keys.LWS_GROUP_INDEX: "2",
        keys.LWS_GROUP_KEY: "ab12",
        keys.LWS_WORKER_INDEX: "1",
        keys.LWS_REVISION: "r1",
    },
    annotations={keys.LWS_SIZE: "4"},
    controller=WORKERS,
)
OF_JOBSET: Final = pod(
    labels={
        keys.JOBSET_NAME: "set",
        keys.JOBSET_UID: "uid-of-set",
        keys.JOBSET_PART: "workers",
        keys.JOBSET_JOB_INDEX: "1",
        keys.JOBSET_GLOBAL_INDEX: "2",
        keys.JOB_NAME: "set-workers-1",
        keys.JOB_UID: "uid-of-child",
    },
    annotations={keys.COMPLETION_INDEX: "5"},
    controller=CHILD,
)
OF_POD_GROUP: Final = pod(scheduling_group="ring")
OF_PLUGINS: Final = pod(labels={keys.PLUGINS_GROUP: "mpi"})
OF_KUEUE: Final = pod(
    labels={keys.KUEUE_GROUP: "batch", keys.KUEUE_INDEX: "1"},
    annotations={keys.KUEUE_SIZE: "3"},
)
ANNOTATED: Final = pod(annotations={GANG: "ours", SIZE: "8", RANK: "7"})
MEMBERS: Final = (
    OF_JOB,
    OF_LWS,
    OF_JOBSET,
    OF_POD_GROUP,
    OF_PLUGINS,
    OF_KUEUE,
    ANNOTATED,
)


@pytest.mark.parametrize(
    ("view", "expected", "group"),
    [
        (
            OF_JOB,
            Membership(
                source=Source.JOB,
                namespace="ml",
                name="train",
                identity="uid-of-job",
                rank=3,
                object=GroupRef("batch/v1", "jobs", "ml", "train", "uid-of-job"),
            ),
            "job/train",
        ),
        (
            OF_LWS,
            Membership(
                source=Source.LWS,
                namespace="ml",
                name="vllm-2",
                identity="vllm/2/ab12/r1",
                size=4,
                rank=1,
                object=GroupRef("leaderworkerset.x-k8s.io/v1", "leaderworkersets", "ml", "vllm"),
            ),
            "lws/vllm-2",
        ),
        (
            OF_JOBSET,
            Membership(
                source=Source.JOBSET,
                namespace="ml",
                name="set",
                identity="uid-of-set",
                place=(2, 5),
                object=GroupRef("jobset.x-k8s.io/v1alpha2", "jobsets", "ml", "set", "uid-of-set"),
            ),
            "jobset/set",
        ),
        (
            OF_POD_GROUP,
            Membership(
                source=Source.POD_GROUP,
                namespace="ml",
                name="ring",
                identity="ring",
                object=GroupRef("scheduling.k8s.io/v1alpha2", "podgroups", "ml", "ring"),
            ),
            "podgroup/ring",
        ),
        (
            OF_PLUGINS,
            Membership(
                source=Source.SCHEDULER_PLUGINS,
                namespace="ml",
                name="mpi",
                identity="mpi",
                object=GroupRef("scheduling.x-k8s.io/v1alpha1", "podgroups", "ml", "mpi"),
            ),
            "podgroup/mpi",
        ),
        (
            OF_KUEUE,
            Membership(
                source=Source.KUEUE,
                namespace="ml",
                name="batch",
                identity="batch",
                size=3,
                rank=1,
            ),
            "pod-group/batch",
        ),
        (
            ANNOTATED,
            Membership(
                source=Source.ANNOTATIONS,
                namespace="ml",
                name="ours",
                identity="ours",
                size=8,
                rank=7,
            ),
            "gang/ours",
        ),
    ],
    ids=lambda it: it.source if isinstance(it, Membership) else "",
)
def test_each_source_tells_the_gang_of_its_pods(
    view: GroupView, expected: Membership, group: str
) -> None:
    assert found(view) == expected
    assert found(view).group == group


@pytest.mark.parametrize("view", MEMBERS)
def test_source_that_is_off_forms_no_gang(view: GroupView) -> None:
    source = found(view).source
    others = tuple(it for it in ALL_SOURCES if it is not source)
    rest = membership(view, others)
    if source is Source.JOBSET:
        assert isinstance(rest, Membership)
        assert rest.source is Source.JOB
    elif source is Source.ANNOTATIONS:
        assert isinstance(rest, Problem)
        assert rest.field == GANG
    else:
        assert rest is None


def test_first_source_in_the_order_of_the_site_counts() -> None:
    both = replace(OF_JOBSET, labels={**OF_JOBSET.labels, keys.PLUGINS_GROUP: "mpi"})
    assert found(both).source is Source.JOBSET
    assert found(both, Source.SCHEDULER_PLUGINS, Source.JOBSET).group == "podgroup/mpi"


def test_pod_without_a_group_belongs_to_none() -> None:
    assert membership(pod(controller=STRANGER, labels={"app": "web"}), ALL_SOURCES) is None


@pytest.mark.parametrize("view", MEMBERS)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_pod_that_opts_out_belongs_to_none(view: GroupView, prefix: str) -> None:
    others = {k: v for k, v in view.annotations.items() if k != GANG}
    assert (
        membership(replace(view, annotations={**others, f"{prefix}gang": "none"}), ALL_SOURCES)
        is None
    )


@pytest.mark.parametrize(
    ("view", "named"),
    [(OF_JOB, "train"), (OF_LWS, "vllm"), (OF_JOBSET, "set")],
    ids=["job", "lws", "jobset"],
)
@pytest.mark.parametrize("controller", [None, STRANGER], ids=["none", "stranger"])
def test_label_without_the_controller_of_the_group_makes_no_member(
    view: GroupView, named: str, controller: Maker | None
) -> None:
    it = membership(replace(view, controller=controller), ALL_SOURCES)
    assert isinstance(it, Outsider)
    assert repr(named) in it.why
    assert ("'web'" in it.why) == (controller is STRANGER)


@pytest.mark.parametrize(
    ("view", "forged"),
    [
        (OF_JOB, {keys.JOB_UID: "uid-of-another"}),
        (OF_JOB, {keys.JOB_NAME: "another"}),
        (OF_LWS, {keys.LWS_NAME: "another"}),
        (OF_LWS, {keys.LWS_GROUP_INDEX: "3"}),
        (OF_LWS, {keys.LWS_WORKER_INDEX: "0"}),
        (OF_JOBSET, {keys.JOBSET_NAME: "another"}),
        (OF_JOBSET, {keys.JOBSET_PART: "leader"}),
        (OF_JOBSET, {keys.JOBSET_JOB_INDEX: "0"}),
    ],
)
def test_labels_of_another_group_make_no_member_of_it(
    view: GroupView, forged: dict[str, str]
) -> None:
    it = membership(replace(view, labels={**view.labels, **forged}), ALL_SOURCES)
    assert isinstance(it, Outsider)


def test_leader_is_made_by_the_statefulset_of_the_set() -> None:
    labels = {**OF_LWS.labels, keys.LWS_WORKER_INDEX: "0"}
    leader = found(replace(OF_LWS, labels=labels, controller=LEADERS))
    assert leader.rank == 0
    assert leader.key == found(OF_LWS).key


_WRONG: Final = ("", " 1", "1 ", "-1", "+1", "1.0", "x", "٣", "1" * 6, "9" * 10_000)


@pytest.mark.parametrize("value", [*_WRONG, "0", str(MOST_RANKS + 1)])
@pytest.mark.parametrize(
    ("view", "key"), [(ANNOTATED, SIZE), (OF_LWS, keys.LWS_SIZE), (OF_KUEUE, keys.KUEUE_SIZE)]
)
def test_size_that_cannot_be_used_is_a_problem(view: GroupView, key: str, value: str) -> None:
    it = problem(replace(view, annotations={**view.annotations, key: value}))
    assert (it.field, it.value) == (key, value)
    assert it.expected == f"a whole number from 1 to {MOST_RANKS}"


@pytest.mark.parametrize(
    ("view", "key"), [(ANNOTATED, SIZE), (OF_LWS, keys.LWS_SIZE), (OF_KUEUE, keys.KUEUE_SIZE)]
)
def test_missing_size_is_a_problem(view: GroupView, key: str) -> None:
    others = {k: v for k, v in view.annotations.items() if k != key}
    it = problem(replace(view, annotations=others))
    assert (it.field, it.value) == (key, NOT_SET)


@pytest.mark.parametrize("value", _WRONG)
@pytest.mark.parametrize(
    ("view", "key"),
    [
        (ANNOTATED, RANK),
        (OF_JOB, keys.COMPLETION_INDEX),
        (OF_JOBSET, keys.COMPLETION_INDEX),
        (OF_POD_GROUP, RANK),
        (OF_PLUGINS, RANK),
    ],
)
def test_rank_in_an_annotation_that_cannot_be_used_is_a_problem(
    view: GroupView, key: str, value: str
) -> None:
    it = problem(replace(view, annotations={**view.annotations, key: value}))
    assert (it.field, it.value) == (key, value)


@pytest.mark.parametrize(
    ("view", "key", "size"),
    [
        (OF_LWS, keys.LWS_WORKER_INDEX, 4),
        (OF_KUEUE, keys.KUEUE_INDEX, 3),
        (OF_JOBSET, keys.JOBSET_GLOBAL_INDEX, MOST_RANKS),
    ],
)
@pytest.mark.parametrize("value", [*_WRONG, None])
def test_rank_in_a_label_that_cannot_be_used_is_a_problem(
    view: GroupView, key: str, size: int, value: str | None
) -> None:
    text = str(size) if value is None else value
    it = problem(replace(view, labels={**view.labels, key: text}))
    assert (it.field, it.value) == (key, text)
    assert it.expected == f"a whole number from 0 to {size - 1}"


@pytest.mark.parametrize("value", ["none ", "None", "", "-a", "a-", "A", "a_b", "a/b", "x" * 64])
def test_name_of_a_gang_is_like_that_of_an_object(value: str) -> None:
    it = problem(replace(ANNOTATED, annotations={GANG: value, SIZE: "2"}))
    assert (it.field, it.value) == (GANG, value)


def test_size_without_a_gang_is_a_problem() -> None:
    it = problem(pod(annotations={SIZE: "2"}))
    assert (it.field, it.value) == (SIZE, "2")
    assert GANG in it.expected


def test_rank_without_a_gang_is_a_problem() -> None:
    it = problem(pod(annotations={RANK: "2"}))
    assert (it.field, it.value) == (RANK, "2")


def test_gang_of_one_is_none() -> None:
    assert membership(pod(annotations={GANG: "ours", SIZE: "1"}), ALL_SOURCES) is None
    labels = {**OF_LWS.labels, keys.LWS_WORKER_INDEX: "0"}
    alone = replace(OF_LWS, labels=labels, annotations={keys.LWS_SIZE: "1"}, controller=LEADERS)
    assert membership(alone, ALL_SOURCES) is None


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("web-0", 0),
        ("web-7", 7),
        ("web-8", None),
        ("web-07", None),
        ("web", None),
        ("7", None),
        ("web-5f6d8-22222", None),
        ("web-9999", None),
        ("web-٣", None),
    ],
)
def test_number_at_the_end_of_a_name_is_the_rank(name: str, rank: int | None) -> None:
    annotations = {GANG: "ours", SIZE: "8"}
    assert found(pod(name=name, annotations=annotations)).rank == rank


def test_pod_of_a_job_in_another_group_has_the_jobs_index() -> None:
    annotations = {GANG: "ours", SIZE: "8", keys.COMPLETION_INDEX: "3"}
    view = pod(name="train-3-abcde", annotations=annotations, controller=JOB)
    assert found(view).rank == 3
    assert found(replace(view, controller=None)).rank is None
    beyond = {**annotations, keys.COMPLETION_INDEX: "8"}
    assert found(replace(view, annotations=beyond)).rank is None


def test_label_of_the_mpi_operator_comes_before_the_number_at_the_end_of_a_name() -> None:
    labels = {keys.PLUGINS_GROUP: "ring", keys.KUBEFLOW_INDEX: "1"}
    view = pod(name="ring-worker-0", labels=labels)
    assert found(view).rank == 1
    assert found(replace(view, annotations={RANK: "2"})).rank == 2
    launcher = {**labels, keys.KUBEFLOW_INDEX: "0"}
    assert found(pod(name="ring-launcher-x2x2x", labels=launcher, controller=JOB)).rank == 0
    assert found(replace(view, labels={**labels, keys.KUBEFLOW_INDEX: "first"})).rank is None


def test_kueue_may_name_another_label_for_the_index() -> None:
    view = replace(
        OF_KUEUE,
        labels={keys.KUEUE_GROUP: "batch", "training.example.org/index": "2"},
        annotations={**OF_KUEUE.annotations, keys.KUEUE_INDEX_LABEL: "training.example.org/index"},
    )
    assert found(view).rank == 2


def test_groups_of_one_name_are_told_apart() -> None:
    views = [
        *MEMBERS,
        replace(OF_PLUGINS, namespace="other"),
        replace(OF_POD_GROUP, scheduling_group="mpi"),
        replace(OF_LWS, labels={**OF_LWS.labels, keys.LWS_REVISION: "r2"}),
        replace(OF_JOBSET, labels={**OF_JOBSET.labels, keys.JOBSET_UID: "uid-of-next"}),
        replace(
            OF_JOB,
            labels={**OF_JOB.labels, keys.JOB_UID: "uid-2"},
            controller=replace(JOB, uid="uid-2"),
        ),
    ]
    assert len({found(it).key for it in views}) == len(views)


def test_restarted_set_is_the_same_gang() -> None:
    labels = {**OF_JOBSET.labels, keys.JOB_UID: "uid-of-next-child"}
    again = replace(OF_JOBSET, labels=labels, controller=replace(CHILD, uid="uid-of-next-child"))
    assert found(again).key == found(OF_JOBSET).key


def test_annotations_that_are_read_here_are_those_that_fill_no_field_of_the_job() -> None:
    read = {keys.ASKED_GANG, keys.ASKED_GANG_SIZE, keys.ASKED_GANG_RANK}
    assert read == {it.key for it in DEFINITIONS if not it.of_job}
    assert MOST_IN_GANG == MOST_RANKS


_TEXTS: Final = st.sampled_from(["", "0", "1", "7", "9" * 9, "x", "none", "vllm", "set", "uid"])
_KEYS: Final = sorted(
    {value for name, value in vars(keys).items() if isinstance(value, str) and "k8s.io/" in value}
)
_CONTROLLERS: Final = st.one_of(
    st.none(),
    st.builds(
        Maker,
        st.sampled_from(["Job", "StatefulSet", "ReplicaSet"]),
        st.sampled_from(["batch/v1", "apps/v1"]),
        st.sampled_from(["x", "vllm", "vllm-1", "set-x-0"]),
        _TEXTS,
    ),
)
_VIEWS: Final = st.builds(
    pod,
    name=st.sampled_from(["p", "web-0", "web-70000"]),
    labels=st.dictionaries(st.sampled_from(_KEYS), _TEXTS),
    annotations=st.dictionaries(
        st.sampled_from([*_KEYS, *(f"{p}{it}" for p in PREFIXES for it in ("gang", "gang-size"))]),
        _TEXTS,
    ),
    controller=_CONTROLLERS,
    scheduling_group=st.sampled_from(["", "ring"]),
)


@given(_VIEWS, st.lists(st.sampled_from(ALL_SOURCES), unique=True))
def test_whatever_a_pod_says_is_within_bounds(view: GroupView, sources: list[Source]) -> None:
    it = membership(view, sources)
    if not isinstance(it, Membership):
        return
    assert it.source in sources
    assert it.namespace == view.namespace
    assert it.size is None or 1 < it.size <= MOST_RANKS
    assert it.rank is None or 0 <= it.rank < (it.size or MOST_RANKS)
    assert it.size is not None or it.object is not None
    assert re.fullmatch(r"[0-9a-f]{32}", it.key)
    assert membership(view, sources) == it
