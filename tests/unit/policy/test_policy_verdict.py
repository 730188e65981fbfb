"""What a policy makes of a pod's annotations."""

from __future__ import annotations

import pytest

from scheduler.policy.rules import Subject
from scheduler.policy.verdict import judge
from tests.unit.policy.policies import PREFIX, effective, policy, told, verdict

SECOND = "slurm.example/"
ONE_RULE = "rules: [{name: r, "


def test_without_rules_a_pod_may_ask_for_anything():
    found = verdict("rules: []", account="any", timeout="600")
    assert effective(found) == {"account": "any", "timeout": "600"}
    assert not found.problems


# --- the four parts -------------------------------------------------------------------------------


def test_default_fills_in_what_the_pod_leaves_open():
    text = ONE_RULE + "defaults: {account: physics, timeout: 3600}}]"
    assert effective(verdict(text)) == {"account": "physics", "timeout": "3600"}
    assert effective(verdict(text, timeout="60"))["timeout"] == "60"


def test_forced_value_replaces_the_pods_and_the_owner_is_told():
    found = verdict(ONE_RULE + "forced: {account: physics}}]", account="chemistry")
    assert effective(found) == {"account": "physics"}
    assert not found.problems
    (remark,) = found.remarks
    assert remark.reason == "PolicyApplied"
    for word in ("'r'", "sunk.coreweave.com/account", "'physics'", "'chemistry'"):
        assert word in remark.message


def test_forced_value_that_the_pod_gives_too_is_not_worth_a_word():
    assert not verdict(ONE_RULE + "forced: {account: physics}}]", account="physics").remarks


def test_forced_value_replaces_one_that_cannot_be_read():
    found = verdict(ONE_RULE + "forced: {timeout: 600}}]", timeout="soon")
    assert effective(found) == {"timeout": "600"}


def test_refusal_names_key_value_rule_and_what_is_allowed():
    text = "rules: [{name: students, allowed: {qos: [normal, 'low-*'], timeout: {max: 3600}}}]"
    assert told(verdict(text, qos="premium", timeout="7200")) == [
        "sunk.coreweave.com/qos is 'premium'; expected one of 'normal', 'low-*' "
        "(policy rule 'students')",
        "sunk.coreweave.com/timeout is '7200'; expected at most 3600 (policy rule 'students')",
    ]


def test_refusal_says_where_a_name_may_not_be_used_at_all():
    (text,) = told(verdict(ONE_RULE + "allowed: {reservation: []}}]", reservation="x"))
    assert text.endswith("expected no such annotation (policy rule 'r')")


def test_required_value_may_come_from_the_pod_or_from_a_default():
    required = "rules: [{name: r, required: [account]}, {name: d, namespaces: [chem], defaults: "
    required += "{account: c}}]"
    assert told(verdict(required)) == [
        "sunk.coreweave.com/account is not set; expected a value (policy rule 'r')"
    ]
    assert not told(verdict(required, account="a"))
    assert not told(verdict(required, "chem"))


def test_required_value_names_what_is_allowed():
    (text,) = told(verdict(ONE_RULE + "required: [account], allowed: {account: [a, b]}}]"))
    assert text.endswith("is not set; expected one of 'a', 'b' (policy rule 'r')")


# --- what is allowed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "partition", "good"),
    [
        ("[gpu, cpu]", "gpu", True),
        ("[gpu, cpu]", "gpu,cpu", True),
        ("[gpu, cpu]", "gpu,secret", False),
        ("[gpu, cpu]", "gpu, secret", False),
        ("[gpu, cpu]", "gpu,", False),
        ("['gpu*']", "gpu-a,gpu-b", True),
        ("['gpu*']", "gpu,secret", False),
        ("['gpu*']", "GPU", False),
        ("['gpu,cpu']", "gpu,cpu", True),
        ("['*']", "any,thing", True),
        ("['?pu']", "xpu", True),
        ("[]", "gpu", False),
    ],
)
def test_every_part_of_a_list_must_be_allowed(allowed, partition, good):
    found = verdict(f"rules: [{{name: r, allowed: {{partition: {allowed}}}}}]", partition=partition)
    assert (not found.problems) == good


@pytest.mark.parametrize(
    ("allowed", "timeout", "good"),
    [
        ("{max: 3600}", "3600", True),
        ("{max: 3600}", "3601", False),
        ("{max: 3600}", "1", True),
        ("{min: 600}", "600", True),
        ("{min: 600}", "60", False),
        ("{min: 600, max: 3600}", "1200", True),
        ("{min: 600, max: 600}", "600", True),
        ("{max: '3600'}", "0003600", True),
        ("[600, 1200]", "1200", True),
        ("[600, 1200]", "900", False),
        ("[600]", "599", True),  # the same minutes, which is all that Slurm knows
    ],
)
def test_numbers_are_compared_as_slurm_gets_them(allowed, timeout, good):
    found = verdict(f"rules: [{{name: r, allowed: {{timeout: {allowed}}}}}]", timeout=timeout)
    assert (not found.problems) == good


def test_longest_time_is_the_default_where_there_is_no_other():
    """Slurm's own default may be longer, or no limit at all."""
    longest = "allowed: {timeout: {max: 3600}}"
    assert effective(verdict(f"{ONE_RULE}{longest}}}]")) == {"timeout": "3600"}
    text = f"{ONE_RULE}{longest}, defaults: {{timeout: 600}}}}]"
    assert effective(verdict(text)) == {"timeout": "600"}


def test_value_that_cannot_be_read_is_left_to_the_reader():
    found = verdict(ONE_RULE + "allowed: {timeout: {max: 3600}}}]", timeout="soon")
    assert not found.problems
    assert effective(found) == {"timeout": "soon"}


# --- which rule counts ----------------------------------------------------------------------------

ORDERED = """
    rules:
    - {name: exception, namespaces: [physics], allowed: {qos: [high]}, defaults: {account: p}}
    - {name: all, allowed: {qos: [normal], account: ['*-lab']}, defaults: {account: x, qos: normal}}
    """


def test_first_rule_that_speaks_of_a_name_counts():
    assert not told(verdict(ORDERED, "physics", qos="high"))
    (text,) = told(verdict(ORDERED, "chemistry", qos="high"))
    assert "(policy rule 'all')" in text


def test_parts_are_looked_for_by_themselves():
    """An exception to what is allowed leaves the default of a later rule as it is."""
    assert effective(verdict(ORDERED, "physics")) == {"account": "p", "qos": "normal"}


def test_what_the_site_sets_itself_need_not_be_allowed():
    assert not told(verdict(ORDERED, "physics"))


@pytest.mark.parametrize(
    ("namespace", "about"),
    [("physics", True), ("team-a", True), ("team", False), ("physics-2", False), ("", False)],
)
def test_namespaces_are_named_or_matched(namespace, about):
    text = ONE_RULE + "namespaces: [physics, 'team-*'], forced: {qos: x}}]"
    assert bool(effective(verdict(text, namespace))) == about


@pytest.mark.parametrize(
    ("selector", "labels", "about"),
    [
        ("matchLabels: {team: a}", {"team": "a"}, True),
        ("matchLabels: {team: a}", {"team": "b"}, False),
        ("matchLabels: {team: a}", {}, False),
        ("matchLabels: {team: a, tier: x}", {"team": "a"}, False),
        ("matchExpressions: [{key: t, operator: In, values: [a, b]}]", {"t": "b"}, True),
        ("matchExpressions: [{key: t, operator: In, values: [a, b]}]", {}, False),
        ("matchExpressions: [{key: t, operator: NotIn, values: [a, b]}]", {"t": "b"}, False),
        ("matchExpressions: [{key: t, operator: NotIn, values: [a, b]}]", {}, True),
        ("matchExpressions: [{key: t, operator: Exists}]", {"t": ""}, True),
        ("matchExpressions: [{key: t, operator: Exists}]", {}, False),
        ("matchExpressions: [{key: t, operator: DoesNotExist}]", {}, True),
        ("matchExpressions: [{key: t, operator: DoesNotExist}]", {"t": "a"}, False),
    ],
)
def test_labels_of_the_namespace_select_as_in_kubernetes(selector, labels, about):
    text = f"{ONE_RULE}namespaceSelector: {{{selector}}}, forced: {{qos: x}}}}]"
    assert bool(effective(verdict(text, labels=labels))) == about


@pytest.mark.parametrize(
    ("names", "given", "about"),
    [
        ("[urgent]", "urgent", True),
        ("[urgent]", "", False),
        ("['urgent-*']", "urgent-1", True),
        ("['*']", "anything", True),
        ("['*']", "", False),
        ("['']", "", True),
        ("['']", "urgent", False),
    ],
)
def test_priority_class_selects(names, given, about):
    text = f"{ONE_RULE}priorityClassNames: {names}, forced: {{qos: x}}}}]"
    assert bool(effective(verdict(text, priority_class=given))) == about


def test_all_selectors_of_a_rule_must_hold():
    text = ONE_RULE + "namespaces: [physics], priorityClassNames: [urgent], forced: {qos: x}}]"
    assert effective(verdict(text, "physics", priority_class="urgent"))
    assert not effective(verdict(text, "chemistry", priority_class="urgent"))
    assert not effective(verdict(text, "physics"))


# --- several prefixes -----------------------------------------------------------------------------


def test_second_prefix_is_no_way_around_a_rule():
    text = ONE_RULE + "allowed: {qos: [normal]}, forced: {account: a}}]"
    asked = {SECOND + "qos": "high", SECOND + "account": "b", PREFIX + "account": "c"}
    found = judge(policy(text), Subject(namespace="n"), asked, prefixes=(PREFIX, SECOND))
    assert told(found) == [f"{SECOND}qos is 'high'; expected one of 'normal' (policy rule 'r')"]
    assert {k: v for k, v in found.annotations.items() if "account" in k} == {
        PREFIX + "account": "a"
    }


def test_default_does_not_meet_a_second_prefix():
    text = ONE_RULE + "defaults: {account: a}}]"
    asked = {SECOND + "account": "b"}
    found = judge(policy(text), Subject(namespace="n"), asked, prefixes=(PREFIX, SECOND))
    assert dict(found.annotations) == asked


def test_annotations_of_others_stay_as_they_are():
    asked = {"example.org/qos": "x", "sunk.coreweave.com/nonsense": "y"}
    found = judge(
        policy(ONE_RULE + "forced: {qos: a}}]"), Subject(namespace="n"), asked, prefixes=(PREFIX,)
    )
    assert dict(found.annotations) == asked | {PREFIX + "qos": "a"}


@pytest.mark.parametrize(
    ("name", "glob", "value", "good"),
    [
        ("user-id", "[!0]*", "+0", False),
        ("user-id", "[!0]*", "-0", False),
        ("user-id", "10*", "1001", True),
        ("user-id", "10*", "+1001", True),
        ("account", "[!r]*", "Root", False),
        ("qos", "[!r]*", "ROOT", False),
        ("account", "[!r]*", "Physics", True),
        ("account", "Phys*", "Physics", True),
        ("account", "0*", "0123", True),
        ("begin", "2030-*", "2030-01-31T08:00:00Z", True),
    ],
)
def test_glob_is_compared_with_what_slurm_makes_of_the_value(name, glob, value, good):
    """Slurm puts accounts and QoS into small letters, and +0 is 0."""
    text = f"{ONE_RULE}allowed: {{{name}: ['{glob}']}}}}]"
    assert (not told(verdict(text, **{name: value}))) == good


def test_number_that_is_a_name_is_no_number():
    text = f"{ONE_RULE}allowed: {{account: ['123']}}}}]"
    assert told(verdict(text, account="0123"))


@pytest.mark.parametrize(
    ("allowed", "folder", "good"),
    [
        ("['/home/*']", "/home/alice", True),
        ("['/home/*']", "/home//alice/.", True),
        ("['/[!e]*']", "//etc", False),
        ("['/[!e]*']", "/./etc", False),
        ("[/home/alice]", "/home//alice/", True),
    ],
)
def test_path_is_judged_as_the_job_gets_it(allowed, folder, good):
    text = f"{ONE_RULE}allowed: {{current-working-dir: {allowed}}}}}]"
    assert (not told(verdict(text, **{"current-working-dir": folder}))) == good
