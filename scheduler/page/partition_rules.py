"""What the policy says of partitions and limits to pods of one namespace, in words for people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from annotations.keys import BY_KEY
from annotations.problems import NotAcceptableError
from scheduler.policy.rules import Allowed, Policy, Range, Rule, Ruling, Value
from slurmapi import Partition

_PARTITION: Final = BY_KEY["partition"].field
_TIME: Final = BY_KEY["timeout"].field
# What people choose; other fields of a job are explained on a pod that asks for them.
_TOLD: Final = ("account", "qos", "timeout", "priority", "gang")
_MOST_VALUES: Final = 8
_MINUTE: Final = 60


@dataclass(frozen=True, slots=True)
class Say:
    """What the policy says of one partition. None: not known. `why` is "" if it allows it."""

    allowed: bool | None
    default: bool | None
    why: str = ""


class NamespaceRules:
    """The rules about pods of one namespace without a PriorityClass. `ruling` is None if they are
    not known, because they depend on the labels of a Namespace that is not known.
    """

    def __init__(self, ruling: Ruling | None) -> None:
        self._ruling = ruling
        given = None if ruling is None else _given(ruling, _PARTITION)
        self.names: frozenset[str] = frozenset() if given is None else _comma_words(given[1])
        """The partitions that pods get without asking."""

    def of(self, partition: Partition) -> Say:
        """What they say of this partition."""
        if self._ruling is None:
            why = "whether the policy allows it depends on labels of the Namespace, not known yet"
            return Say(None, None, why)
        default = partition.name in self.names if self.names else _slurms_default(partition)
        forced = self._ruling.forced.get(_PARTITION)
        if forced is not None:
            rule, value = forced
            fits = partition.name in self.names
            why = f"policy rule {rule.name!r} sets the partition to {value.text!r}"
            return Say(fits, fits, "" if fits else why)
        allowed = self._ruling.allowed.get(_PARTITION)
        if allowed is None or partition.name in self.names or _accepts(allowed[1], partition.name):
            return Say(True, default)
        rule, listed = allowed
        return Say(False, default, f"policy rule {rule.name!r} allows {_allowed_text(listed)}")

    @property
    def longest_seconds(self) -> int | None:
        """The longest time that pods may ask for; None if no rule limits it."""
        if self._ruling is None:
            return None
        forced, allowed = self._ruling.forced.get(_TIME), self._ruling.allowed.get(_TIME)
        most = forced[1] if forced else _most(allowed)
        if most is None or not isinstance(most.read, int):
            return None
        return most.read * _MINUTE

    def limits(self) -> Iterator[str]:
        """What else they say that people should know."""
        if self._ruling is None:
            return
        for name in _TOLD:
            yield from _policy_limits(self._ruling, name)
        if self._ruling.gangs is not None:
            rule, sources = self._ruling.gangs
            yield f"gangs: {', '.join(sources) or 'none'} (policy rule {rule.name!r})"


def depends_on_class(policy: Policy) -> bool:
    """Whether any rule is about PriorityClasses, so that pods with one may be judged otherwise."""
    return any(it.priority_classes is not None for it in policy.rules)


def _policy_limits(ruling: Ruling, name: str) -> Iterator[str]:
    field = BY_KEY[name].field
    if field in ruling.forced:
        rule, value = ruling.forced[field]
        yield f"{name}: always {value.text!r} (policy rule {rule.name!r})"
        return
    if field in ruling.allowed:
        rule, listed = ruling.allowed[field]
        yield f"{name}: {_allowed_text(listed)} (policy rule {rule.name!r})"
    if field in ruling.defaults:
        rule, value = ruling.defaults[field]
        yield f"{name}: {value.text!r} if the pod gives none (policy rule {rule.name!r})"
    elif field in ruling.required:
        yield f"{name}: required (policy rule {ruling.required[field][0].name!r})"


def _given(ruling: Ruling, field: str) -> tuple[Rule, Value] | None:
    return ruling.forced.get(field) or ruling.defaults.get(field)


def _comma_words(value: Value) -> frozenset[str]:
    return frozenset(filter(None, (it.strip() for it in value.text.split(","))))


def _slurms_default(partition: Partition) -> bool | None:
    return None if partition.flags is None else partition.is_default


def _accepts(allowed: Allowed, name: str) -> bool:
    try:
        value = Value("partition", name, BY_KEY["partition"].kind.read(name))
    except NotAcceptableError:
        return False
    return allowed.accepts(value)


def _most(allowed: tuple[Rule, Allowed] | None) -> Value | None:
    return allowed[1].most if allowed and isinstance(allowed[1], Range) else None


def _allowed_text(allowed: Allowed) -> str:
    """The accepted values in words; a list may be as long as the policy file."""
    if isinstance(allowed, Range):
        return allowed.text
    values = [it.text for it in allowed.values[:_MOST_VALUES]]
    shown = [*values, *islice(allowed.globs, _MOST_VALUES - len(values))]
    more = len(allowed.values) + len(allowed.globs) - len(shown)
    rest = [f"{more} more"] if more else []
    return f"one of {', '.join([*map(repr, shown), *rest])}" if shown else "none"
