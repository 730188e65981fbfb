"""What holds for any policy and any pod."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.policy.compiled import compiled
from scheduler.policy.document import Document
from scheduler.policy.file import PolicyError, understood
from scheduler.policy.rules import Subject
from scheduler.policy.verdict import judge
from tests.unit.policy.policies import PATH, PREFIX, effective

VALUES = {"account": ["a", "b", "c"], "qos": ["x", "y"], "timeout": ["60", "600", "3600"]}
NAMESPACES = ["one", "two"]


_ONE = {name: st.sampled_from(values) for name, values in VALUES.items()}
_SINGLE = st.fixed_dictionaries({}, optional=_ONE)
_LISTS = st.fixed_dictionaries(
    {}, optional={name: st.lists(one, unique=True) for name, one in _ONE.items()}
)
_RULE = st.fixed_dictionaries(
    {
        "defaults": _SINGLE,
        "forced": _SINGLE,
        "allowed": _LISTS,
        "required": st.lists(st.sampled_from(sorted(VALUES)), unique=True),
    },
    optional={"namespaces": st.lists(st.sampled_from(NAMESPACES), min_size=1)},
).filter(lambda rule: any(rule[part] for part in ("defaults", "forced", "allowed", "required")))
_RULES = st.lists(_RULE, max_size=4)


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates()
_WORDS = st.sampled_from(
    [
        *("rules", "name", "namespaces", "namespaceSelector", "matchLabels", "matchExpressions"),
        *("key", "operator", "values", "priorityClassNames", "defaults", "forced", "allowed"),
        *("required", "qos", "timeout", "user-id", "exclusive", "min", "max", "In"),
    ]
)
_ANYTHING = st.recursive(
    _LEAVES | _WORDS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(_WORDS | _LEAVES, inner, max_size=4)
    ),
)


@given(rule=st.dictionaries(_WORDS, _ANYTHING, max_size=5), other=_ANYTHING)
def test_whatever_a_file_holds_it_is_taken_or_refused_in_words(rule, other):
    rule.setdefault("name", "r")
    for content in ({"rules": [rule]}, {"rules": other}, other):
        faults = _faults(yaml.safe_dump(content))
        assert all(line.startswith("policy.yaml") for line in faults)


def _faults(text: str) -> list[str]:
    try:
        understood(PATH, text.encode())
    except PolicyError as error:
        return str(error).splitlines()
    return []


def first(rules: list[dict[str, Any]], part: str, name: str) -> Any:
    """The first that speaks of the name: the sentence of the documentation, in one line."""
    return next((rule[part][name] for rule in rules if name in rule[part]), None)


@given(rules=_RULES, asked=_SINGLE, namespace=st.sampled_from(NAMESPACES))
def test_each_annotation_ends_as_the_documentation_says(rules, asked, namespace):
    document = Document.model_validate(
        {"rules": [{"name": f"r{number}", **rule} for number, rule in enumerate(rules)]}
    )
    policy, faults = compiled(document)
    assert not faults
    pod = {PREFIX + name: value for name, value in asked.items()}
    found = judge(policy, Subject(namespace=namespace), pod, prefixes=(PREFIX,))

    about = [rule for rule in rules if namespace in rule.get("namespaces", NAMESPACES)]
    wrong = set()
    for name in VALUES:
        forced, default = first(about, "forced", name), first(about, "defaults", name)
        allowed = first(about, "allowed", name)
        required = any(name in rule["required"] for rule in about)
        expected = forced or asked.get(name) or default
        assert effective(found).get(name) == expected
        refused = forced is None and name in asked and allowed is not None
        if (refused and asked[name] not in allowed) or (required and expected is None):
            wrong.add(PREFIX + name)
    assert {it.field for it in found.problems} == wrong
