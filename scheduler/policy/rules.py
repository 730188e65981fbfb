"""Rules in the form in which they are applied: for which pods, and what they say about each field.

Pure data. Fields are those of JobRequest, so that two annotations for one field are treated as one.
What people write, and where a new field of rules goes: `document.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import translate
from functools import lru_cache
from typing import Final, TypeVar

from annotations.keys import DEFINITIONS
from annotations.node_list import NodeNames
from scheduler.core.gang_sources import Source
from scheduler.core.ignorable import Ignorable

T = TypeVar("T")

OF_GANG: Final = frozenset(it.field for it in DEFINITIONS if not it.of_job)
"""The fields that say to which gang a pod belongs."""

_GLOB: Final = frozenset("*?[")
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+")
# Slurm puts these names into small letters, so that Root is root.
_WITHOUT_CASE: Final = frozenset({"account", "qos"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a rule may know about a pod: nothing that its author chooses freely. `labels` are those
    of the Namespace. PriorityClasses are created and rationed by administrators.
    """

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class LabelCondition:
    """One condition on a label; `values` are empty where only its presence counts."""

    key: str
    wanted: bool
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet the condition. As in Kubernetes, NotIn is also met if there is no
        such label.
        """
        found = labels.get(self.key)
        there = found is not None and (not self.values or found in self.values)
        return there == self.wanted


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the annotation `name`: as it is written, and as its reader understands it."""

    name: str
    text: str
    read: object


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers between two bounds, both included."""

    least: Value | None
    most: Value | None

    def accepts(self, value: Value) -> bool:
        """Whether the value is a number within the bounds."""
        number = value.read
        if not isinstance(number, int):
            return False
        return _number_or(self.least, number) <= number <= _number_or(self.most, number)

    @property
    def text(self) -> str:
        """The accepted values in words, for messages."""
        parts = [
            f"at {word} {bound.text}"
            for word, bound in (("least", self.least), ("most", self.most))
            if bound is not None
        ]
        return " and ".join(parts)


@dataclass(frozen=True, slots=True)
class Listed:
    """Allowed values, and globs for text. If the value is a list joined by commas, each part must
    be allowed.
    """

    values: tuple[Value, ...]
    globs: tuple[str, ...] = ()

    def accepts(self, value: Value) -> bool:
        """Whether the value is one of them, in its meaning or as it is written."""
        if any(value.read == it.read for it in self.values):
            return True
        words = {it.text for it in self.values}
        return all(part in words or self._some_glob(value.name, part) for part in _parts(value))

    def _some_glob(self, name: str, part: str) -> bool:
        small = [it.lower() for it in self.globs] if name in _WITHOUT_CASE else ()
        return _matches(part, self.globs) and (not small or _matches(part.lower(), small))

    @property
    def text(self) -> str:
        """The accepted values in words, for messages."""
        shown = ", ".join(repr(it) for it in (*(v.text for v in self.values), *self.globs))
        return f"one of {shown}" if shown else "no such annotation"


Allowed = Listed | Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule. A selector that is None matches every pod; the other parts are keyed by field.

    `required` gives the annotation's name for each field that must have a value.
    """

    name: str
    namespaces: tuple[str, ...] | None = None
    requirements: tuple[LabelCondition, ...] = ()
    priority_classes: tuple[str, ...] | None = None
    defaults: Mapping[str, Value] = field(default_factory=dict)
    forced: Mapping[str, Value] = field(default_factory=dict)
    allowed: Mapping[str, Allowed] = field(default_factory=dict)
    required: Mapping[str, str] = field(default_factory=dict)
    ignored: frozenset[Ignorable] | None = None
    """Requirements of the pod's spec that need not be honoured where they cannot be."""
    gangs: tuple[Source, ...] | None = None
    """The sources of gangs in place of those of the site, in this order."""

    def about(self, subject: Subject) -> bool:
        """Whether the rule applies to that pod. If the rule selects by PriorityClass, a pod without
        one only matches "".
        """
        name = subject.priority_class
        return (
            (self.namespaces is None or _matches(subject.namespace, self.namespaces))
            and all(it.holds(subject.labels) for it in self.requirements)
            and (
                self.priority_classes is None
                or (_matches(name, self.priority_classes) if name else "" in self.priority_classes)
            )
        )


@dataclass(frozen=True, slots=True)
class Ruling:
    """The rules about one kind of pods, combined: for each field, the first rule that says
    something about it. So a pod costs no more with many rules than with one.
    """

    defaults: Mapping[str, tuple[Rule, Value]]
    forced: Mapping[str, tuple[Rule, Value]]
    allowed: Mapping[str, tuple[Rule, Allowed]]
    required: Mapping[str, tuple[Rule, str]]
    ignored: frozenset[Ignorable] = frozenset()
    gangs: tuple[Rule, tuple[Source, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in order. For each field and each of the four parts the first rule counts."""

    rules: tuple[Rule, ...] = ()

    @property
    def reads_labels(self) -> bool:
        """Whether the labels of Namespaces must be known."""
        return any(rule.requirements for rule in self.rules)

    @property
    def is_about_gangs(self) -> bool:
        """Whether any rule decides to which gang a pod belongs."""
        return any(
            rule.gangs is not None or not OF_GANG.isdisjoint((*rule.forced, *rule.defaults))
            for rule in self.rules
        )

    def about(self, subject: Subject) -> tuple[Rule, ...]:
        """The rules that apply to that pod."""
        return tuple(rule for rule in self.rules if rule.about(subject))

    def ruling(self, subject: Subject) -> Ruling:
        """The combination of these rules."""
        rules = self.about(subject)
        return Ruling(
            defaults=_firsts((rule, rule.defaults) for rule in rules),
            forced=_firsts((rule, rule.forced) for rule in rules),
            allowed=_firsts((rule, rule.allowed) for rule in rules),
            required=_firsts((rule, rule.required) for rule in rules),
            ignored=next((it.ignored for it in rules if it.ignored is not None), frozenset()),
            gangs=next(((it, it.gangs) for it in rules if it.gangs is not None), None),
        )


NO_POLICY: Final = Policy()


def _firsts(said: Iterable[tuple[Rule, Mapping[str, T]]]) -> dict[str, tuple[Rule, T]]:
    found: dict[str, tuple[Rule, T]] = {}
    for rule, by_field in said:
        for name, value in by_field.items():
            found.setdefault(name, (rule, value))
    return found


def is_glob(text: str) -> bool:
    """Whether the text has a wildcard, so that it matches other texts too."""
    return not _GLOB.isdisjoint(text)


def _matches(text: str, patterns: Sequence[str]) -> bool:
    return any(
        _pattern(it).match(text) is not None if is_glob(it) else text == it for it in patterns
    )


# As many as a file can hold: compiling one takes longer than using it a hundred times.
@lru_cache(maxsize=2**16)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def _parts(value: Value) -> Sequence[str]:
    if isinstance(value.read, tuple | NodeNames):
        return [str(it) for it in value.read]
    if isinstance(value.read, int) and _WHOLE_NUMBER.fullmatch(value.text):
        return [str(int(value.text))]  # a glob such as [!0]* must not match +0
    if isinstance(value.read, Enum | int):
        return [value.text]
    # A path is judged as the job gets it: a glob /[!e]* must not match //etc.
    is_path = isinstance(value.read, str) and value.read.startswith("/")
    return [it.strip() for it in (str(value.read) if is_path else value.text).split(",")]


def _number_or(bound: Value | None, number: int) -> int:
    return bound.read if bound is not None and isinstance(bound.read, int) else number
