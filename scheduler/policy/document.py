"""The shape of a policy file, as people write it; docs/policy.md says what it means.

A new field of rules goes into `RuleDocument` here and into `Rule` in `rules.py`; `compiled.py`
takes it from one to the other and finds its faults. `Policy.ruling` in `rules.py` combines the
rules of a pod, and `verdict.py` or `rulebook.py` applies them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from scheduler.core.gang_sources import Source
from scheduler.core.ignorable import Ignorable

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
# What stands in brackets says which characters match, so it may be anything.
_IN_BRACKETS = re.compile(r"\[[^\]]*\]")
_OF_NAMESPACES = re.compile(r"[a-z0-9*?\[\]-]*")
_OF_CLASSES = re.compile(r"[a-z0-9.*?\[\]-]*")


class _Shape(BaseModel):
    """Keys are Kubernetes' camelCase; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def _not_empty(items: tuple[str, ...]) -> tuple[str, ...]:
    if not items:
        raise ValueError("expected at least one; leave it out for all")
    return items


def _of_namespaces(items: tuple[str, ...]) -> tuple[str, ...]:
    return _possible(items, _OF_NAMESPACES, least=1)


def _of_classes(items: tuple[str, ...]) -> tuple[str, ...]:
    return _possible(items, _OF_CLASSES, least=0)


def _possible(
    items: tuple[str, ...], characters: re.Pattern[str], *, least: int
) -> tuple[str, ...]:
    """The items. Raises ValueError for one that no name can match: its rule would be about nobody,
    and others would get what it forbids.
    """
    for it in items:
        if len(it) < least or not characters.fullmatch(_IN_BRACKETS.sub("", it)):
            raise ValueError("expected a name or glob in each entry, of small letters and digits")
    return items


def _each_once(items: tuple[Source, ...]) -> tuple[Source, ...]:
    if len(set(items)) < len(items):
        raise ValueError("expected each source once")
    return items


ListOfWords = Annotated[tuple[str, ...], Field(strict=False)]
Patterns = Annotated[tuple[str, ...], Field(strict=False), AfterValidator(_not_empty)]
Namespaces = Annotated[Patterns, AfterValidator(_of_namespaces)]
PriorityClasses = Annotated[Patterns, AfterValidator(_of_classes)]
Sources = Annotated[
    tuple[Annotated[Source, Field(strict=False)], ...],
    Field(strict=False),
    AfterValidator(_each_once),
]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class Expression(_Shape):
    """One requirement on labels, as in a Kubernetes label selector."""

    key: str = Field(min_length=1)
    operator: Operator
    values: ListOfWords = ()

    @model_validator(mode="after")
    def _has_values_where_they_count(self) -> Expression:
        if (self.operator in {"In", "NotIn"}) != bool(self.values):
            raise ValueError("expected values with In and NotIn, and none with the others")
        return self


class SelectorDocument(_Shape):
    """A label selector. All of its requirements must hold, as in Kubernetes."""

    match_labels: dict[str, str] = Field({}, alias="matchLabels")
    match_expressions: Annotated[tuple[Expression, ...], Field(strict=False)] = Field(
        (), alias="matchExpressions"
    )

    @model_validator(mode="after")
    def _selects(self) -> SelectorDocument:
        if not self.match_labels and not self.match_expressions:
            raise ValueError("expected matchLabels or matchExpressions; leave it out for all")
        return self


class RuleDocument(_Shape):
    """One rule: which pods it applies to, and what it says about their annotations, by name."""

    name: str
    namespaces: Namespaces | None = None
    namespace_selector: SelectorDocument | None = Field(None, alias="namespaceSelector")
    priority_class_names: PriorityClasses | None = Field(None, alias="priorityClassNames")
    defaults: dict[str, Any] = {}
    forced: dict[str, Any] = {}
    allowed: dict[str, Any] = {}
    required: ListOfWords = ()
    ignored_requirements: Annotated[tuple[Ignorable, ...], Field(strict=False)] | None = Field(
        None, alias="ignoredRequirements"
    )
    gangs: Sources | None = None

    @field_validator("name")
    @classmethod
    def _is_a_label(cls, value: str) -> str:
        """The name becomes the value of a metric's label, and is part of messages."""
        if not _NAME.fullmatch(value):
            raise ValueError("expected a name of at most 63 letters, digits, '-', '_' and '.'")
        return value

    @model_validator(mode="after")
    def _says_something(self) -> RuleDocument:
        said = self.defaults or self.forced or self.allowed or self.required
        if not said and self.ignored_requirements is None and self.gangs is None:
            raise ValueError(
                "expected defaults, forced, allowed or required, ignoredRequirements or gangs: it "
                "says nothing"
            )
        return self


class Document(_Shape):
    """The whole file: the rules, in the order in which they are applied."""

    rules: Annotated[tuple[RuleDocument, ...], Field(strict=False)]
