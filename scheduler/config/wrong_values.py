"""Turns pydantic's errors into words for people: which values would be accepted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from reprlib import Repr
from typing import Any, Final

# By pydantic's error type. For all other types pydantic's own words are used.
_EXPECTED: Final[Mapping[str, str]] = {
    "missing": "a value",
    "string_type": "text; put it in quotes",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "enum": "{expected}",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "names with their values",
    "model_type": "names with their values",
    "model_attributes_type": "names with their values",
    "path_type": "the path of a file",
    "too_short": "at least {min_length}",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
}

_SHORT: Final = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 120


def expected(error: Mapping[str, Any]) -> str:
    """What would be accepted, as `expected ...`; `error` is one of `ValidationError.errors()`."""
    text = _EXPECTED.get(error["type"])
    if text is None:
        return str(error["msg"]).removeprefix("Value error, ")
    context = error.get("ctx", {})
    return f"expected {text.format(**{name: _without_zeros(it) for name, it in context.items()})}"


def nearest(name: str, known: Iterable[str], *, show: Callable[[str], str] = repr) -> str:
    """`; did you mean 'x'?`, or "" if no known name is similar."""
    near = get_close_matches(name, list(known), n=1)
    return f"; did you mean {show(near[0])}?" if near else ""


def abridged(value: object) -> str:
    """The value so that the person who wrote it recognises it, with a bounded length."""
    return _SHORT.repr(value)


def _without_zeros(value: object) -> object:
    return f"{value:g}" if isinstance(value, float) else value
