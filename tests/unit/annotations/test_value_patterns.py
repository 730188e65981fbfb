"""A pattern says of values what the reader says, and is never narrower."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotations.keys import BY_KEY, DEFINITIONS
from annotations.problems import NotAcceptableError
from annotations.value_kinds import Kind
from annotations.value_patterns import ValuePattern
from tests.support.value_patterns import matches

KEYS = sorted(BY_KEY)
CHARACTERS = st.characters(codec="utf-8")
ODD = st.sampled_from(
    ["", " ", "0", "+1", "-1", "true", "TRUE", "1h", "a,", "2030-13-01", "a[2-1]"]
)


def accepts(kind: Kind, value: str) -> bool:
    try:
        kind.read(value)
    except NotAcceptableError:
        return False
    return True


def looks_right(pattern: ValuePattern) -> st.SearchStrategy[str]:
    return st.from_regex(pattern.pattern, fullmatch=True, alphabet=CHARACTERS)


@given(data=st.data(), key=st.sampled_from(KEYS))
def test_what_the_reader_accepts_matches(data, key):
    kind = BY_KEY[key].kind
    near = st.tuples(looks_right(kind.pattern), st.text(CHARACTERS, max_size=2)).map("".join)
    value = data.draw(st.one_of(looks_right(kind.pattern), near, st.text(CHARACTERS), ODD))
    assert matches(kind.pattern, value) or not accepts(kind, value)


@given(
    data=st.data(), key=st.sampled_from([it for it in KEYS if not BY_KEY[it].kind.pattern.beyond])
)
def test_what_matches_is_accepted_where_nothing_else_is_refused(data, key):
    kind = BY_KEY[key].kind
    value = data.draw(looks_right(kind.pattern))
    assert accepts(kind, value) or not matches(kind.pattern, value)


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda it: it.key)
def test_examples_match(definition):
    assert matches(definition.kind.pattern, definition.example)


@pytest.mark.parametrize("key", [it for it in KEYS if not accepts(BY_KEY[it].kind, "?")])
def test_people_are_told_what_the_reader_says(key):
    kind = BY_KEY[key].kind
    with pytest.raises(NotAcceptableError) as refused:
        kind.read("?")
    assert str(refused.value).startswith(kind.pattern.expected)


@pytest.mark.parametrize("value", ["x" * 1025, "é" * 513])
def test_too_long_matches_no_form(value):
    assert not matches(BY_KEY["comment"].kind.pattern, value)
