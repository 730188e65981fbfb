"""Labels of a pod as one short text, and selectors that search it.

Fifty thousand pods have labels, and a selector is asked about each of them: one text a pod is a
fifth of the size of a dictionary, and a search in it takes a tenth of a microsecond. Keys and
values of labels hold neither `=` nor a line break.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.node_suitability import Requirement

# What one pod's labels may take here. The API server takes a megabyte of them.
LONGEST_LABELS: Final = 4096

_Check = tuple[tuple[str, ...], bool]
"""Texts, and whether one of them must be among the labels, or none."""


def packed(labels: Mapping[str, str]) -> str:
    """The labels, sorted, a line each; of more than fit the first ones."""
    lines = "".join(f"{key}={value}\n" for key, value in sorted(labels.items()))
    if len(lines) > LONGEST_LABELS:
        lines = lines[: lines.rfind("\n", 0, LONGEST_LABELS) + 1]
    return f"\n{lines}"


@dataclass(frozen=True, slots=True)
class Selector:
    """A label selector: all of its requirements must hold. None in place of a selector selects
    nothing, and one without requirements everything.
    """

    requirements: tuple[Requirement, ...] = ()
    _checks: tuple[_Check, ...] = field(default=(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_checks", tuple(map(_check, self.requirements)))

    def matches(self, labels: str) -> bool:
        """Whether labels, packed, meet it."""
        for texts, wanted in self._checks:
            for text in texts:
                if text in labels:
                    break
            else:
                if wanted:
                    return False
                continue
            if not wanted:
                return False
        return True

    @property
    def words(self) -> int:
        """How many requirements and values it has: each may be searched for in each pod."""
        return sum(1 + len(it.values) for it in self.requirements)

    @property
    def required(self) -> tuple[str, ...]:
        """Labels that all it matches have, as lines of packed labels."""
        found = (it for it in self.requirements if it.operator == "In" and len(it.values) == 1)
        return tuple(f"{it.key}={it.values[0]}" for it in found)

    @property
    def keys(self) -> frozenset[str]:
        """The labels it speaks of."""
        return frozenset(it.key for it in self.requirements)


def selector(
    match_labels: Mapping[str, str], expressions: Iterable[Requirement], *also: tuple[str, str]
) -> Selector:
    """A selector as the API writes it; `also` are labels that must have this value besides."""
    equal = {*match_labels.items(), *also}
    wanted = [Requirement(key, "In", (value,)) for key, value in sorted(equal)]
    return Selector((*wanted, *expressions))


def _check(requirement: Requirement) -> _Check:
    """As in a metav1.LabelSelector: a label that is absent meets NotIn. Other operators do not
    pass the API server, and nothing meets them.
    """
    key = requirement.key
    values = tuple(f"\n{key}={value}\n" for value in requirement.values)
    match requirement.operator:
        case "In":
            return values, True
        case "NotIn":
            return values, False
        case "Exists":
            return (f"\n{key}=",), True
        case "DoesNotExist":
            return (f"\n{key}=",), False
        case _:
            return (), True
