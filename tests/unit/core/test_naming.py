from __future__ import annotations

from string import printable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.naming import VERSION, Owner, OwnerTag, job_name, read_tag

TEXT = st.text(printable, max_size=20)


@given(TEXT, TEXT, TEXT, TEXT, st.lists(TEXT, min_size=1, max_size=3), TEXT)
def test_tag_is_read_as_it_was_written(cluster, scheduler, namespace, unit, uids, node):
    tag = OwnerTag(VERSION, cluster, scheduler, namespace, unit, tuple(uids), node)
    read = read_tag(tag.encode())
    assert read == tag
    assert read is not None
    assert read.owner == Owner(cluster, scheduler)


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
