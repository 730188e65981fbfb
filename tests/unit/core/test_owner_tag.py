from __future__ import annotations

import json
from string import printable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.naming import job_name
from scheduler.core.owner_tag import MOST_RANKS, SEVERAL, SINGLE, Owner, OwnerTag, read_tag

TEXT = st.text(printable, max_size=20)


RANKS = st.integers(0, MOST_RANKS - 1)
PODS = st.dictionaries(TEXT, RANKS, min_size=1, max_size=5).filter(
    lambda pods: len(set(pods.values())) == len(pods)
)


@given(TEXT, TEXT, TEXT, TEXT, TEXT, TEXT)
def test_tag_is_read_as_it_was_written(cluster, scheduler, namespace, unit, uid, node):
    tag = OwnerTag(SINGLE, cluster, scheduler, namespace, unit, (uid,), node)
    read = read_tag(tag.encode())
    assert read == tag
    assert read is not None
    assert read.owner == Owner(cluster, scheduler)


def test_tag_of_a_single_pod_keeps_its_bytes():
    tag = OwnerTag(SINGLE, "c", "s", "ns", "train", ("uid-0",), "n1", grace=30)
    assert tag.encode() == (
        '{"v":1,"cluster":"c","scheduler":"s","namespace":"ns","unit":"train","uids":["uid-0"],'
        '"node":"n1","grace":30}'
    )
    assert tag.key == "uid-0"


def of_several(**changes: object) -> str:
    """The tag of a gang of two, with fields of the JSON changed; None takes a field away."""
    fields: dict[str, object] = {
        "v": SEVERAL,
        "cluster": "c",
        "scheduler": "s",
        "namespace": "ns",
        "unit": "train",
        "uids": ["a", "b"],
        "key": "0123456789",
        "group": "Job train",
        "ranks": [0, 1],
        "names": ["train-0", "train-1"],
    }
    if "uids" in changes and "names" not in changes:
        fields["names"] = [f"train-{it}" for it in cast("list[str]", changes["uids"])]
    return json.dumps({name: it for name, it in (fields | changes).items() if it is not None})


def test_tag_of_several_pods_has_the_key_of_its_unit_and_a_rank_for_each():
    tag = read_tag(of_several(uids=["b", "a"], ranks=[3, 1]))
    assert tag is not None
    assert (tag.key, tag.group, tag.uids, tag.ranks) == (
        "0123456789",
        "Job train",
        ("b", "a"),
        (3, 1),
    )
    assert read_tag(tag.encode()) == tag


@given(PODS, TEXT.filter(bool), TEXT.filter(bool))
def test_tag_of_several_pods_is_read_as_it_was_written(pods, key, group):
    text = of_several(uids=list(pods), ranks=list(pods.values()), key=key, group=group)
    tag = read_tag(text)
    assert (tag is not None) == (key not in pods and any(pods))
    if tag is not None:
        assert dict(zip(tag.uids, tag.ranks, strict=True)) == pods
        assert read_tag(tag.encode()) == tag


@given(
    st.lists(st.sampled_from(["a", "b", "c"]), max_size=4),
    st.lists(st.integers() | st.sampled_from([0, 1, 2, MOST_RANKS - 1, MOST_RANKS]), max_size=4),
)
def test_tag_whose_ranks_cannot_be_is_not_believed(uids, ranks):
    """Whoever wrote it, such a tag would give two pods one slot, or a pod none."""
    sound = len(uids) == len(ranks) == len(set(uids)) == len(set(ranks)) > 0 and all(
        0 <= rank < MOST_RANKS for rank in ranks
    )
    assert (read_tag(of_several(uids=uids, ranks=ranks)) is not None) == sound


@pytest.mark.parametrize(
    "changes",
    [
        {"key": None},
        {"key": ""},
        {"key": "a"},
        {"key": 7},
        {"group": None},
        {"group": ""},
        {"ranks": None},
        {"ranks": [0, "1"]},
        {"ranks": [0, True]},
        {"ranks": [0, 0.5]},
        {"ranks": [0, 10**30]},
        {"v": SEVERAL + 1},
        {"v": SINGLE},
    ],
)
def test_tag_of_several_pods_that_lacks_anything_is_none(changes):
    assert read_tag(of_several()) is not None
    assert read_tag(of_several(**changes)) is None


def test_text_of_others_may_be_nested_deeply():
    """Else one such job would end the process, which reads the comments of all jobs."""
    assert read_tag('{"environment":' + "[" * 20_000) is None


@given(st.text(max_size=60))
def test_text_of_others_is_no_tag_and_no_error(text):
    assert read_tag(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "null",
        "[1]",
        '{"v":2,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":["x"]}',
        '{"v":1,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":[]}',
        '{"v":1,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":"x"}',
        '{"v":"1","cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":["x"]}',
        '{"v":1,"cluster":"c","scheduler":"s"}',
        '{"v":1,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":["x","y"]}',
        '{"v":1,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":["x"],"group":"g"}',
        '{"v":1,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":["x"],"key":"k"}',
        '{"v":1,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":["x"],"ranks":[0]}',
    ],
)
def test_tag_that_lacks_anything_is_none(text):
    assert read_tag(text) is None


def test_tag_of_a_later_minor_version_may_say_more():
    text = '{"v":1,"cluster":"c","scheduler":"s","namespace":"n","unit":"u","uids":["x"],"more":1}'
    assert read_tag(text) is not None


def test_recreated_pod_has_another_job_name():
    uid = "0f0e0d0c-1111-2222-3333-444444444444"
    assert job_name("ns", "train", uid) == "ns.train.0f0e0d0c"
    assert job_name("ns", "train", uid) != job_name("ns", "train", uid.replace("0f", "1f"))
