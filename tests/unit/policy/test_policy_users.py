"""Users and groups: what is asked for by saying nothing, and a warning where root is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.policy.rules import Subject
from scheduler.policy.verdict import judge
from tests.unit.policy.policies import PREFIX, effective, policy, told, verdict

NOBODY = "rules: []"
NO_ROOT = "rules: [{name: r, allowed: {user-id: {min: 1000}}}]"


def reasons(text: str, **asked: Any) -> list[str]:
    return [str(it.reason) for it in verdict(text, **asked).remarks]


@pytest.mark.parametrize("value", ["0", "00", "-0", "+0"])
def test_root_that_is_asked_for_is_remarked_on_and_served(value):
    found = verdict(NOBODY, user_id=value)
    assert [str(it.reason) for it in found.remarks] == ["RootRequested"]
    assert not found.problems
    assert effective(found) == {"user-id": value}


@pytest.mark.parametrize("asked", [{}, {"user_id": "1000"}, {"user_id": "root"}, {"group_id": "0"}])
def test_nothing_is_said_of_others(asked):
    """Without any user SUNK's jobs are root's too: that is the site's doing, not the pod's."""
    assert reasons(NOBODY, **asked) == []


def test_rule_that_allows_root_silences_the_remark():
    assert reasons("rules: [{name: r, allowed: {user-id: {min: 0}}}]", user_id="0") == []


def test_rule_about_something_else_does_not():
    assert reasons("rules: [{name: r, forced: {qos: a}}]", user_id="0") == ["RootRequested"]


def test_root_that_a_site_sets_itself_is_not_remarked_on():
    assert reasons("rules: [{name: r, forced: {user-id: 0}}]") == []
    assert reasons("rules: [{name: r, defaults: {user-id: 0}}]") == []


def test_root_is_refused_by_a_number():
    assert told(verdict(NO_ROOT, user_id="0")) == [
        "sunk.coreweave.com/user-id is '0'; expected at least 1000 (policy rule 'r')"
    ]


def test_root_is_refused_where_a_pod_has_it_by_saying_nothing():
    (text,) = told(verdict(NO_ROOT))
    assert text.startswith("sunk.coreweave.com/user-id is not set; expected at least 1000, since")
    assert "user 0" in text
    assert "(policy rule 'r')" in text
    assert not told(verdict("rules: [{name: r, allowed: {user-id: [0, 1000]}}]"))


def test_default_user_spares_the_pod_the_annotation():
    text = "rules: [{name: r, allowed: {user-id: {min: 1000}}, defaults: {user-id: 1000}}]"
    found = verdict(text)
    assert effective(found) == {"user-id": "1000"}
    assert not found.problems


@pytest.mark.parametrize(
    ("asked", "good"),
    [
        ({"user_id": "1000"}, True),  # and group 1000 with it
        ({"user_id": "1000", "group_id": "1000"}, True),
        ({"user_id": "1000", "group_id": "0"}, False),
        ({"user_id": "20"}, False),
        ({}, False),
    ],
)
def test_group_that_is_not_given_is_the_users_number(asked, good):
    text = "rules: [{name: r, allowed: {group-id: {min: 100}}}]"
    assert (not told(verdict(text, **asked))) == good


def test_group_goes_with_a_forced_user():
    found = verdict("rules: [{name: r, forced: {user-id: 1000}}]", user_id="0", group_id="0")
    assert effective(found) == {"user-id": "1000"}
    assert [str(it.reason) for it in found.remarks] == ["PolicyApplied", "PolicyApplied"]


def test_group_is_kept_beside_a_forced_user_where_a_rule_allows_it():
    text = "rules: [{name: r, forced: {user-id: 1000}, allowed: {group-id: [50]}}]"
    assert effective(verdict(text, group_id="50")) == {"user-id": "1000", "group-id": "50"}
    assert told(verdict(text, group_id="0"))


def test_other_names_of_one_thing_are_ruled_together():
    """`features` is short for `constraints`."""
    text = "rules: [{name: r, allowed: {constraints: [h100]}}]"
    assert told(verdict(text, features="a100")) == [
        "sunk.coreweave.com/features is 'a100'; expected one of 'h100' (policy rule 'r')"
    ]
    assert not told(verdict(text, features="h100"))
    found = verdict("rules: [{name: r, forced: {features: h100}}]", constraints="a100")
    assert effective(found) == {"features": "h100"}


@pytest.mark.parametrize(
    ("allowed", "asked", "good"),
    [
        ("exclusive: [none]", {"exclusive": "whole-node"}, True),
        ("exclusive: [none]", {"exclusive": "true"}, True),
        ("exclusive: [true]", {"exclusive": "none"}, True),
        ("exclusive: [user]", {"exclusive": "none"}, False),
        ("nice: {min: 0}", {"nice": "-5"}, False),
        ("nice: {min: 0}", {"nice": "5"}, True),
        ("nice: {min: -10, max: -5}", {"nice": "-7"}, True),
        ("priority: {max: 1000}", {"priority": "1001"}, False),
        ("priority: []", {"priority": "1"}, False),
        ("required-nodes: ['a[0-9]*']", {"required_nodes": "a[1-3]"}, True),
        ("required-nodes: ['a[0-9]*']", {"required_nodes": "a1,b1"}, False),
        ("licenses: ['matlab:*']", {"licenses": "matlab:2,ansys:1"}, False),
        ("hold: [false]", {"hold": "true"}, False),
    ],
)
def test_values_are_compared_as_they_are_meant(allowed, asked, good):
    text = f"rules: [{{name: r, allowed: {{{allowed}}}}}]"
    assert (not told(verdict(text, **asked))) == good


def test_second_prefix_is_no_way_to_root():
    asked = {"slurm.example/user-id": "0"}
    found = judge(
        policy(NO_ROOT), Subject(namespace="n"), asked, prefixes=(PREFIX, "slurm.example/")
    )
    assert [it.field for it in found.problems] == ["slurm.example/user-id"]
