"""A policy file that cannot be taken says what is wrong: file, rule, field, value, expectation."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.core.gang_sources import Source
from scheduler.policy.file import PolicyError, read_policy, understood
from scheduler.policy.rules import NO_POLICY
from tests.unit.policy.policies import PATH


def faults(text: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        understood(PATH, text.encode())
    return str(caught.value).splitlines()


def rule(text: str) -> str:
    """A file with one rule that says `text`, in YAML's flow style."""
    return f"rules: [{{name: r, {text}}}]"


def test_file_without_rules_is_a_policy():
    assert understood(PATH, b"rules: []") == NO_POLICY


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "policy.yaml: expected the key rules, with a list of rules"),
        ("- a", "policy.yaml: expected the key rules, with a list of rules"),
        ("rules:", "policy.yaml: rules: None: expected a list"),
        ("rules: {}", "policy.yaml: rules: {}: expected a list"),
        ("rule: []", "policy.yaml: rule: there is no such key; did you mean 'rules'?"),
        ("rules: [physics]", "policy.yaml: rule number 1: 'physics': expected names with their"),
        ("rules: [{forced: {qos: a}}]", "policy.yaml: rule number 1: name: expected a value"),
        (
            rule("forced: {qos: a}, namespace: [a]"),
            "rule 'r': namespace: there is no such key; did",
        ),
        (rule("forced: {qos: a}, namespaces: a"), "rule 'r': namespaces: 'a': expected a list"),
        (rule("forced: {qos: a}, namespaces: [7]"), "namespaces[0]: 7: expected text; put it in"),
        (rule("forced: {qos: a}, namespaces: []"), "namespaces: []: expected at least one; leave"),
        (rule("gangs: [jobs]"), "rule 'r': gangs[0]: 'jobs': expected 'annotations', 'lws', "),
        (rule("gangs: none"), "rule 'r': gangs: 'none': expected a list"),
        (rule("gangs: [job, job]"), "rule 'r': gangs: ['job', 'job']: expected each source once"),
        (rule("forced: {gang: Train}"), "rule 'r': forced.gang: 'Train': expected a name"),
        (rule("namespaces: [a]"), "rule 'r': expected defaults, forced, allowed or required"),
        (rule("forced: [qos]"), "rule 'r': forced: ['qos']: expected names with their values"),
        (rule("forced: {qoss: a}"), "rule 'r': forced: 'qoss': expected the name of an annotation"),
        (rule("forced: {qoss: a}"), "; did you mean 'qos'?"),
        (
            rule("required: [time]"),
            "rule 'r': required: 'time': expected the name of an annotation",
        ),
        (rule("forced: {qos: [a]}"), "rule 'r': forced.qos: ['a']: expected one value"),
        (rule("forced: {qos: }"), "rule 'r': forced.qos: None: expected one value"),
        (rule("forced: {account: 123}"), "forced.account: 123: expected text; put it in quotes"),
        (rule("forced: {user-id: 01001}"), "policy.yaml, line 1: a number with a leading 0 or a"),
        (rule("allowed: {timeout: {max: 1:30}}"), "policy.yaml, line 1: a number with a leading 0"),
        (
            rule("forced: {qos: a}, namespaces: ['a,b']"),
            "rule 'r': namespaces: ['a,b']: expected a name or glob in each entry",
        ),
        (rule("forced: {qos: a}, namespaces: [a, 'b ']"), "expected a name or glob in each entry"),
        (rule("forced: {qos: a}, namespaces: [Team-*]"), "expected a name or glob in each entry"),
        (rule("forced: {qos: a}, namespaces: ['']"), "expected a name or glob in each entry"),
        (rule("forced: {qos: a}, priorityClassNames: [a b]"), "expected a name or glob in each"),
        (rule("forced: {comment: 2026-11-21}"), "expected one value; put text and dates in quotes"),
        (rule("defaults: {timeout: 1h}"), "rule 'r': defaults.timeout: '1h': expected a whole num"),
        (
            rule("allowed: {qos: a}"),
            "rule 'r': allowed.qos: 'a': expected a list of values, or min",
        ),
        (rule("allowed: {timeout: {}}"), "allowed.timeout: {}: expected a list of values, or min"),
        (rule("allowed: {timeout: {maximum: 1}}"), "expected a list of values, or min and max"),
        (
            rule("allowed: {timeout: {max: 1d}}"),
            "expected as max a whole number of seconds above 0",
        ),
        (rule("allowed: {timeout: {min: 90, max: 60}}"), "expected a min that is not above max"),
        (rule("allowed: {qos: {max: '3'}}"), "expected a list of values: qos is no number"),
        (rule("allowed: {timeout: [soon]}"), "allowed.timeout: ['soon']: expected a whole number"),
        (
            rule("forced: {qos: a}, namespaceSelector: {}"),
            "expected matchLabels or matchExpressions",
        ),
        (
            rule(
                "forced: {qos: a}, namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}"
            ),
            "namespaceSelector.matchExpressions[0].operator: 'Is': expected 'In', 'NotIn'",
        ),
        (
            rule(
                "forced: {qos: a}, namespaceSelector: {matchExpressions: [{key: a, operator: In}]}"
            ),
            "expected values with In and NotIn, and none with the others",
        ),
        ("rules: [{name: a b, forced: {qos: a}}]", "name: 'a b': expected a name of at most 63"),
        (f"rules: [{{name: {'a' * 64}, forced: {{qos: a}}}}]", "expected a name of at most 63"),
        ("rules:\n- {name: a\n", "policy.yaml, line 3: "),
        ("rules: []\nrules: []\n", "policy.yaml, line 2: 'rules' is given twice"),
        (rule("forced: {qos: a, qos: b}"), "policy.yaml, line 1: 'qos' is given twice"),
        ("rules: !!python/object:os.system []", "policy.yaml, line 1: could not determine a const"),
        ("[" * 5000, "policy.yaml"),
        ("a: &a [*a]", "policy.yaml"),
        ("? [a]\n: b", "policy.yaml"),
        ("rules: !!set {a, b}", "policy.yaml: rule number 1: "),
        ("1: 2", "policy.yaml: "),
        (rule("forced: {timeout: 0x1" + "0" * 5000 + "}"), "policy.yaml: "),
        (rule("forced: {qos: [" + "a, " * 1000 + "]}"), "'a', 'a', ...]: expected one value"),
        ("rules: [\x00]", "policy.yaml: not YAML: "),
    ],
)
def test_fault_names_file_rule_field_value_and_what_is_accepted(text, told):
    lines = faults(text)
    assert any(told in line for line in lines), lines
    assert all(line.startswith("policy.yaml") for line in lines)


def test_all_faults_are_told_at_once():
    text = """
    rules:
    - {name: a, forced: {qoss: x, timeout: soon}, allowed: {qos: high}}
    - {name: b, defaults: {timeout: 0}}
    - {name: b, defaults: {timeout: 60}}
    """
    assert len(faults(text)) == 5


def test_rule_may_say_nothing_but_what_is_ignored():
    text = rule("namespaces: [a], ignoredRequirements: [volumes, resource-claims]")
    (found,) = understood(PATH, text.encode()).rules
    assert found.ignored == frozenset({"volumes", "resource-claims"})
    assert "ignoredRequirements" in faults(rule("ignoredRequirements: [taints]"))[0]


def test_rule_may_say_nothing_but_which_gangs_there_are():
    (found,) = understood(PATH, rule("namespaces: [a], gangs: [lws, job]").encode()).rules
    assert found.gangs == (Source.LWS, Source.JOB)
    (none,) = understood(PATH, rule("gangs: []").encode()).rules
    assert none.gangs == ()


def test_source_of_gangs_that_the_site_leaves_out_is_refused():
    with pytest.raises(PolicyError) as caught:
        understood(PATH, rule("gangs: [lws, job]").encode(), gangs=[Source.JOB])
    assert str(caught.value) == (
        "policy.yaml: rule 'r': gangs: lws: expected a source of --gangs (job)"
    )


def test_two_rules_of_one_name_are_refused():
    text = "rules: [{name: a, forced: {qos: x}}, {name: a, forced: {qos: y}}]"
    assert faults(text) == [
        "policy.yaml: rule 'a': name: 'a': expected a name that no other rule has"
    ]


def test_file_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(PolicyError, match=r"nowhere\.yaml: No such file or directory"):
        read_policy(tmp_path / "nowhere.yaml")


def test_folder_is_no_file(tmp_path: Path):
    with pytest.raises(PolicyError, match="Is a directory"):
        read_policy(tmp_path)


def test_file_of_any_size_is_not_read(tmp_path: Path):
    path = tmp_path / "policy.yaml"
    path.write_bytes(b"# " + b"x" * 1024 * 1024)
    with pytest.raises(PolicyError, match="expected at most 1048576 bytes"):
        read_policy(path)


def test_file_that_is_no_text():
    with pytest.raises(PolicyError, match="expected text in UTF-8"):
        understood(PATH, b"\xff\xfe\xfa")
