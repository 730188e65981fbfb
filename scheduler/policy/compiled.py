"""Turns a file as it is written into rules that can be applied, and lists all of its faults.

Values are read by the readers of the annotations themselves, so that a policy accepts the same
values as a pod, in the same form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from annotations.keys import BY_KEY, Definition
from annotations.problems import NotAcceptableError
from scheduler.config.wrong_values import abridged, nearest
from scheduler.core.gang_sources import ALL_SOURCES, Source
from scheduler.policy.document import Document, RuleDocument, SelectorDocument
from scheduler.policy.rules import (
    Allowed,
    LabelCondition,
    Listed,
    Policy,
    Range,
    Rule,
    Value,
    is_glob,
)

T = TypeVar("T")
_BOUNDS = ("min", "max")
_MOST_GUESSES = 10


def compiled(
    document: Document, gangs: Sequence[Source] = ALL_SOURCES
) -> tuple[Policy, tuple[str, ...]]:
    """The policy, and its faults, a line each. A policy with faults must not be used. `gangs` are
    the site's sources of gangs.
    """
    faults: list[str] = []
    rules = tuple(_rule(it, faults) for it in document.rules)
    names = Counter(rule.name for rule in rules)
    twice = [name for name, count in names.items() if count > 1]
    faults += [
        f"rule {name!r}: name: {name!r}: expected a name that no other rule has" for name in twice
    ]
    faults += [fault for rule in rules for fault in _unknown_sources(rule, gangs)]
    return Policy(rules), tuple(faults)


def _unknown_sources(rule: Rule, gangs: Sequence[Source]) -> Iterator[str]:
    """The scheduler may have no right to read the objects of a source that the site leaves out."""
    for source in rule.gangs or ():
        if source not in gangs:
            known = ", ".join(gangs) or "none"
            yield f"rule {rule.name!r}: gangs: {source}: expected a source of --gangs ({known})"


def _rule(rule: RuleDocument, faults: list[str]) -> Rule:
    where = f"rule {rule.name!r}"
    required = dict.fromkeys(rule.required)
    ignored = rule.ignored_requirements
    return Rule(
        name=rule.name,
        namespaces=rule.namespaces,
        requirements=_requirements(rule.namespace_selector),
        priority_classes=rule.priority_class_names,
        defaults=_section(rule.defaults, _acceptable_value, f"{where}: defaults", faults),
        forced=_section(rule.forced, _acceptable_value, f"{where}: forced", faults),
        allowed=_section(rule.allowed, _allowed, f"{where}: allowed", faults),
        ignored=None if ignored is None else frozenset(ignored),
        gangs=rule.gangs,
        required=_section(required, lambda it, _: it.key, f"{where}: required", faults),
    )


def _section(
    said: Mapping[str, Any],
    read: Callable[[Definition, Any], T],
    where: str,
    faults: list[str],
) -> dict[str, T]:
    """The entries of one part of a rule, by field of JobRequest."""
    found: dict[str, T] = {}
    for name, given in said.items():
        definition = BY_KEY.get(name)
        if definition is None:
            # Looking for a similar name takes a millisecond, and only the first faults are
            # reported.
            near = nearest(name, BY_KEY) if len(faults) < _MOST_GUESSES else ""
            faults.append(f"{where}: {name!r}: expected the name of an annotation{near}")
        elif definition.field in found:
            faults.append(f"{where}.{name}: set twice in this rule, under two names")
        else:
            try:
                found[definition.field] = read(definition, given)
            except NotAcceptableError as refusal:
                faults.append(f"{where}.{name}: {abridged(given)}: expected {refusal}")
    return found


def _acceptable_value(definition: Definition, given: object) -> Value:
    """One value, read as the annotation is. Raises NotAcceptableError."""
    if not isinstance(given, str | int):
        raise NotAcceptableError("one value; put text and dates in quotes")
    text = str(given).lower() if isinstance(given, bool) else str(given)
    read = definition.kind.read(text)
    if not isinstance(given, str) and not isinstance(read, int) and not isinstance(given, bool):
        raise NotAcceptableError("text; put it in quotes")  # YAML reads 1_2 as 12
    return Value(definition.key, text, read)


def _allowed(definition: Definition, given: object) -> Allowed:
    if isinstance(given, list):
        return _compile_list(definition, given)
    if isinstance(given, dict) and given and given.keys() <= set(_BOUNDS):
        return _compile_range(definition, given)
    raise NotAcceptableError("a list of values, or min and max for a number")


def _compile_list(definition: Definition, given: list[object]) -> Listed:
    globs = tuple(it for it in given if isinstance(it, str) and is_glob(it))
    return Listed(
        tuple(_acceptable_value(definition, it) for it in given if it not in globs), globs
    )


def _compile_range(definition: Definition, given: Mapping[str, object]) -> Range:
    """The range between `min` and `max` as given. Raises NotAcceptableError if no value
    is in it.
    """
    bounds = {bound: _bound_value(definition, bound, it) for bound, it in given.items()}
    least, most = (bounds.get(bound) for bound in _BOUNDS)
    found = Range(least, most)
    if least is not None and not found.accepts(least):
        raise NotAcceptableError("a min that is not above max")
    return found


def _bound_value(definition: Definition, bound: str, given: object) -> Value:
    try:
        value = _acceptable_value(definition, given)
    except NotAcceptableError as refusal:
        raise NotAcceptableError(f"as {bound} {refusal}") from None
    if not isinstance(value.read, int) or isinstance(value.read, bool):
        raise NotAcceptableError(f"a list of values: {definition.key} is no number")
    return value


def _requirements(selector: SelectorDocument | None) -> tuple[LabelCondition, ...]:
    return () if selector is None else tuple(_each(selector))


def _each(selector: SelectorDocument) -> Iterator[LabelCondition]:
    for key, value in selector.match_labels.items():
        yield LabelCondition(key, wanted=True, values=(value,))
    for it in selector.match_expressions:
        yield LabelCondition(it.key, wanted=it.operator in {"In", "Exists"}, values=it.values)
