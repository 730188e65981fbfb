"""Label selectors on packed labels; the real kube-scheduler is asked in the live tests."""

from __future__ import annotations

import pytest

from scheduler.core.labels import packed, selector
from scheduler.core.node_suitability import Requirement

LABELS = packed({"app": "web", "a": "pp", "empty": ""})


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("app", "In", ("web", "db"), True),
        ("app", "In", ("we",), False),
        ("pp", "In", ("web",), False),
        ("app", "NotIn", ("web",), False),
        ("absent", "NotIn", ("web",), True),
        ("app", "Exists", (), True),
        ("ap", "Exists", (), False),
        ("app", "DoesNotExist", (), False),
        ("absent", "DoesNotExist", (), True),
        ("empty", "In", ("",), True),
        ("absent", "In", ("",), False),
        ("app", "Like", ("web",), False),
    ],
)
def test_expression(key, operator, values, matches):
    assert selector({}, [Requirement(key, operator, values)]).matches(LABELS) is matches


def test_all_of_a_selector_must_hold_and_an_empty_one_does():
    assert selector({}, ()).matches(LABELS)
    assert selector({"app": "web"}, [Requirement("a", "Exists")]).matches(LABELS)
    assert not selector({"app": "web"}, (), ("a", "x")).matches(LABELS)
