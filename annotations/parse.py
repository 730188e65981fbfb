"""Turns a pod into the job request it asks for, or into a list of all its problems.

It looks up each annotation in the table (`keys.py`), counts the resources (`resources.py`), and
`combine.py` joins both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from annotations.combine import combined, contradictions
from annotations.grace import grace_problems
from annotations.keys import BY_KEY, remedy
from annotations.model import JobRequest, PodView, Rules
from annotations.problems import NotAcceptableError, Problem
from annotations.resources import Resources, read_resources

_MOST_GUESSES = 8
_LONGEST_GUESS = 63


@dataclass(slots=True)
class _Asked:
    """The annotations' values by JobRequest field, and the key that each came from."""

    # Any: each value has the type of its JobRequest field, as its reader in the table returns it.
    fields: dict[str, Any] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def parse(pod: PodView, rules: Rules) -> JobRequest | tuple[Problem, ...]:
    """The job request, or all problems at once: annotations by key, then resources, then grace."""
    asked = _read_annotations(pod, rules)
    read = read_resources(pod, rules)
    resources = read if isinstance(read, Resources) else None
    mapped = rules.device_resources.values()
    for name, expected in contradictions(asked.fields, resources, keys=asked.keys, mapped=mapped):
        _refuse(asked, pod, asked.keys[name], expected)
    problems = [
        *asked.problems,
        *(read if not isinstance(read, Resources) else ()),
        *grace_problems(pod, rules),
    ]
    if problems or resources is None:
        return tuple(problems)
    deadline = pod.active_deadline_seconds
    return combined(asked.fields, resources, keys=asked.keys, active_deadline_seconds=deadline)


def _read_annotations(pod: PodView, rules: Rules) -> _Asked:
    asked = _Asked()
    first: dict[str, str] = {}
    for key, name in _under_prefixes(pod, rules):
        twin = first.setdefault(name, key)
        if pod.annotations[key] != pod.annotations[twin]:
            _refuse(asked, pod, key, f"the value of {twin}, or only one of the two")
        elif twin == key:
            _read_one(asked, pod, key=key, name=name)
    return asked


def _read_one(asked: _Asked, pod: PodView, *, key: str, name: str) -> None:
    definition = BY_KEY.get(name)
    if definition is None:
        # To guess what somebody meant takes a millisecond, and a pod may have thousands of keys.
        plain = len(asked.problems) >= _MOST_GUESSES or len(name) > _LONGEST_GUESS
        _refuse(asked, pod, key, "a known annotation" if plain else remedy(name))
        return
    other = asked.keys.setdefault(definition.field, key)
    if other != key:
        _refuse(asked, pod, key, f"only one of this and {other}")
        return
    try:
        value = definition.kind.read(pod.annotations[key])
    except NotAcceptableError as refusal:
        _refuse(asked, pod, key, str(refusal))
    else:
        if definition.of_job:
            asked.fields[definition.field] = value


def _refuse(asked: _Asked, pod: PodView, key: str, expected: str) -> None:
    asked.problems.append(Problem(key, pod.annotations[key], expected))


def _under_prefixes(pod: PodView, rules: Rules) -> Iterator[tuple[str, str]]:
    """Keys under our prefixes with the name behind the prefix, in a stable order."""
    for prefix in dict.fromkeys(rules.prefixes):
        for key in sorted(pod.annotations):
            if key.startswith(prefix):
                yield key, key.removeprefix(prefix)
