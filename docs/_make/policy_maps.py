"""The annotations as maps in CEL, in which the validating policy looks them up by name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from annotations.keys import DEFINITIONS, supported
from annotations.value_patterns import ValuePattern

_NOT_PLAIN: Final = re.compile(r"[^\x20-\x7e]")
_INDENT: Final = 8


def table() -> str:
    """The variables of the policy that are drawn from the table of annotations, as YAML."""
    return "".join(_variable(name, body) for name, body in _variables())


def _variables() -> Iterator[tuple[str, Iterable[str]]]:
    patterns = {it.key: it.kind.pattern for it in DEFINITIONS}
    yield "patterns", _map((key, _pattern(it)) for key, it in patterns.items())
    yield "lowest", _map((key, str(it.low)) for key, it in patterns.items() if it.low is not None)
    yield (
        "highest",
        _map((key, str(it.high)) for key, it in patterns.items() if it.high is not None),
    )
    yield "expected", _map((key, raw_string(it.expected)) for key, it in patterns.items())
    yield "known", (raw_string(supported()),)
    yield "rivals", _map((key, raw_string(other)) for key, other in _rivals().items())


def _rivals() -> Mapping[str, str]:
    """Two annotations that set the same thing, each with the other."""
    by_field: defaultdict[str, list[str]] = defaultdict(list)
    for it in DEFINITIONS:
        by_field[it.field].append(it.key)
    pairs = [keys for keys in by_field.values() if len(keys) > 1]
    return {key: other for one, two in pairs for key, other in ((one, two), (two, one))}


def _pattern(value_pattern: ValuePattern) -> str:
    """Of a whole value, in ASCII."""
    plain = _NOT_PLAIN.sub(lambda match: rf"\x{{{ord(match[0]):x}}}", value_pattern.pattern)
    return raw_string(f"^(?:{plain})$")


def raw_string(value: str) -> str:
    """As CEL writes it; ValueError for a text that a raw string cannot hold."""
    if '"' in value:
        raise ValueError(f"{value!r} has a quotation mark, which ends a raw string in CEL")
    return f'r"{value}"'


def _map(items: Iterable[tuple[str, str]]) -> Iterable[str]:
    return ("{", *(f"'{key}': {value}," for key, value in items), "}")


def _variable(name: str, lines: Iterable[str]) -> str:
    head = f"    - name: {name}\n      expression: >-\n"
    return head + "".join(f"{' ' * _INDENT}{line}\n" for line in lines)
