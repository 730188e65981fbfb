"""Label and field selectors: turns a query string or a LabelSelector into a test of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.sandbox.kube.errors import bad_request
from scheduler.sandbox.kube.resources import Resource

Body = dict[str, Any]
Test = Callable[[Body], bool]

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*([^\s=!]+)\s*(==|=|!=)\s*([^\s=!]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s=!,()]+)\s*$")
_COMMA = re.compile(r",(?![^(]*\))")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the requirement; a missing label meets NotIn."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case _:
                return value is None


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The requirements of a labelSelector parameter. Raises ApiError 400."""
    return tuple(_label_requirement(part) for part in _COMMA.split(text) if part.strip())


def _label_requirement(text: str) -> Requirement:
    if match := _SET.match(text):
        values = frozenset(value.strip() for value in match[3].split(","))
        return Requirement(match[1], "In" if match[2] == "in" else "NotIn", values)
    if match := _EQUAL.match(text):
        operator = "NotIn" if match[2] == "!=" else "In"
        return Requirement(match[1], operator, frozenset({match[3]}))
    if match := _EXISTS.match(text):
        return Requirement(match[2], "DoesNotExist" if match[1] else "Exists")
    raise bad_request(f"unable to parse requirement: {text!r}")


def from_object(selector: Body | None) -> tuple[Requirement, ...] | None:
    """The requirements of a metav1.LabelSelector; None (nothing matches) if there is none."""
    if selector is None:
        return None
    wanted = [
        Requirement(key, "In", frozenset({value}))
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        values = frozenset(expression.get("values") or ())
        wanted.append(Requirement(expression["key"], expression["operator"], values))
    return tuple(wanted)


def matches(requirements: tuple[Requirement, ...] | None, body: Body) -> bool:
    """Whether an object's labels meet all requirements."""
    if requirements is None:
        return False
    labels = body["metadata"].get("labels") or {}
    return all(requirement.holds(labels) for requirement in requirements)


def compile_test(resource: Resource, *, labels: str = "", fields: str = "") -> Test | None:
    """One test made of both query parameters; None if every object passes.

    Raises ApiError 400, also for a field by which this resource cannot be selected.
    """
    tests: list[Test] = []
    if labels:
        requirements = parse_labels(labels)
        tests.append(lambda body: matches(requirements, body))
    tests.extend(_field_test(resource, part) for part in fields.split(",") if part.strip())
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda body: all(test(body) for test in tests)


def _field_test(resource: Resource, text: str) -> Test:
    match = _EQUAL.match(text)
    if match is None:
        raise bad_request(f"invalid selector: {text!r}; can't understand {text!r}")
    name, operator, wanted = match[1], match[2], match[3]
    if name not in {"metadata.name", "metadata.namespace"} and name not in resource.fields:
        raise bad_request(f"field label not supported: {name}")
    value_of = _reader(name)
    if operator == "!=":
        return lambda body: value_of(body) != wanted
    return lambda body: value_of(body) == wanted


def _reader(name: str) -> Callable[[Body], str]:
    if name == "source":
        return lambda body: str((body.get("source") or {}).get("component", ""))
    if name == "status.successful":
        return lambda body: str((body.get("status") or {}).get("succeeded", 0))
    top, _, rest = name.partition(".")
    if not rest:
        return lambda body: _text(body.get(top))
    empty: Body = {}
    default = "false" if rest in {"unschedulable", "hostNetwork"} else ""
    return lambda body: _text((body.get(top) or empty).get(rest)) or default


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
