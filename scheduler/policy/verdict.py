"""Applies a policy to one pod: gives effective annotations, refusals and remarks. Pure.

The result is annotations again, so that later code reads the pod's own values and the site's values
in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from annotations import Problem
from annotations.keys import BY_KEY, DEFINITIONS
from annotations.problems import NOT_SET, NotAcceptableError
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import Remark
from scheduler.policy.rules import OF_GANG, Allowed, Policy, Range, Rule, Ruling, Subject, Value

_USER: Final = "user_id"
_GROUP: Final = "group_id"
_ROOT: Final = 0
# Without a time limit Slurm takes the partition's default, which may be no limit at all.
_UNSET_IS_LONGEST: Final = frozenset({"time_limit_minutes"})
# The order of the table of annotations, but a group is judged after the user, which must be known.
_FIELDS: Final = tuple(
    sorted(dict.fromkeys(it.field for it in DEFINITIONS), key=lambda field: field == _GROUP)
)


class Refusal(Problem, frozen=True, kw_only=True):
    """A value that the rule with that name does not allow."""

    rule: str


class Verdict(msgspec.Struct, frozen=True):
    """What a policy says about a pod. `annotations` are the effective ones, and may only be used if
    there are no problems.
    """

    annotations: Mapping[str, str]
    problems: tuple[Refusal, ...] = ()
    remarks: tuple[Remark, ...] = ()


def judge(
    policy: Policy, subject: Subject, annotations: Mapping[str, str], *, prefixes: Sequence[str]
) -> Verdict:
    """Forced values replace the pod's, defaults fill gaps, and what a pod asks for must be allowed.

    Values that cannot be read are left for the parser to refuse.
    """
    return judged(policy.ruling(subject), annotations, prefixes=prefixes)


def judged(ruling: Ruling, annotations: Mapping[str, str], *, prefixes: Sequence[str]) -> Verdict:
    """The verdict by the combined rules about this kind of pods."""
    case = _Case(ruling, annotations, prefixes)
    for field in case.fields:
        case.settle(field)
    return Verdict(case.annotations, tuple(case.problems), tuple(case.remarks))


def gang_annotations(
    ruling: Ruling, annotations: Mapping[str, str], *, prefixes: Sequence[str]
) -> Mapping[str, str]:
    """The pod's annotations as the rules leave those about its gang. What is refused or replaced is
    reported with the rest (`judged`).
    """
    if OF_GANG.isdisjoint(ruling.forced) and OF_GANG.isdisjoint(ruling.defaults):
        return annotations
    case = _Case(ruling, annotations, prefixes)
    for field in case.fields:
        if field in OF_GANG:
            case.settle(field)
    return case.annotations


class _Case:
    """One pod, and the rules that apply to it."""

    def __init__(
        self, ruling: Ruling, annotations: Mapping[str, str], prefixes: Sequence[str]
    ) -> None:
        self._ruling = ruling
        self._prefix = prefixes[0]
        self._requested_values = _requested_values(annotations, prefixes)
        self._settled: dict[str, str] = {}
        self._forced_user: Rule | None = None
        self.annotations = dict(annotations)
        self.problems: list[Refusal] = []
        self.remarks: list[Remark] = []

    @property
    def fields(self) -> list[str]:
        """The fields of which the pod or a rule says something, in the order in which they are
        settled.
        """
        rules = self._ruling
        spoken = {*self._requested_values, *rules.forced, *rules.allowed, *rules.defaults}
        spoken.update(rules.required)
        return [field for field in _FIELDS if field in spoken] if spoken else []

    def settle(self, field: str) -> None:
        """Decide about one field."""
        asked = self._requested_values.get(field, {})
        forced = self._ruling.forced.get(field)
        allowed = self._allowed(field)
        if forced is not None:
            self._force(*forced, asked)
        elif asked and field == _GROUP and self._forced_user is not None and allowed is None:
            self._take_away(self._forced_user, asked)
        elif asked:
            self._check(field, asked, allowed)
        else:
            self._fill(field, allowed)

    def _allowed(self, field: str) -> tuple[Rule, Allowed] | None:
        return self._ruling.allowed.get(field)

    def _force(self, rule: Rule, value: Value, asked: Mapping[str, Value]) -> None:
        for key, own in asked.items():
            del self.annotations[key]
            if own.read != value.read:
                self._remark(f"sets {key} to {value.text!r}", own, rule)
        self._set(value)
        if BY_KEY[value.name].field == _USER:
            self._forced_user = rule

    def _take_away(self, rule: Rule, asked: Mapping[str, Value]) -> None:
        """Drop the pod's group: a rule sets the user, and the group belongs to the pod's own. Not
        called if a rule is about groups.
        """
        for key, own in asked.items():
            del self.annotations[key]
            self._remark(f"sets the user, and {key} with it", own, rule)

    def _remark(self, what: str, own: Value, rule: Rule) -> None:
        text = f"Policy rule {rule.name!r} {what}; the pod's value {own.text!r} is not used"
        self.remarks.append(Remark(Reason.POLICY_APPLIED, text))

    def _check(
        self, field: str, asked: Mapping[str, Value], allowed: tuple[Rule, Allowed] | None
    ) -> None:
        """Check the pod's values of this field against the policy. If that says nothing about the
        field, only add a remark if the pod asks for root.
        """
        for key, own in asked.items():
            self._settled[field] = own.text
            if own.read is _UNREADABLE:
                continue
            if allowed is not None:
                self._must_be(key, own, *allowed)
            elif field == _USER and own.read == _ROOT:
                self.remarks.append(Remark(Reason.ROOT_REQUESTED, _root_text(key)))

    def _must_be(self, key: str, own: Value, rule: Rule, allowed: Allowed) -> None:
        if not allowed.accepts(own):
            self._refuse(key, own.text, allowed.text, rule)

    def _fill(self, field: str, allowed: tuple[Rule, Allowed] | None) -> None:
        """Fill a field that the pod leaves out with the policy's default. If there is none, check
        what Slurm would use instead.
        """
        default = self._ruling.defaults.get(field)
        if default is not None:
            self._set(default[1])
            return
        if field in {_USER, _GROUP} and allowed is not None:
            self._check_unset(field, *allowed)
        elif field in _UNSET_IS_LONGEST and allowed is not None:
            self._take_longest(allowed[1])
        self._require(field, allowed)

    def _check_unset(self, field: str, rule: Rule, allowed: Allowed) -> None:
        """Refuse a missing value if what Slurm uses instead is not allowed: a job without a user
        belongs to root, and a job without a group gets the group whose number is the user's.
        """
        name = next(it.key for it in DEFINITIONS if it.field == field)
        text = self._settled.get(_USER, str(_ROOT)) if field == _GROUP else str(_ROOT)
        value = _value_of(name, text)
        if value.read is not _UNREADABLE and not allowed.accepts(value):
            kind = "user" if field == _USER else "group"
            expected = f"{allowed.text}, since without it the job would have {kind} {text}"
            self._refuse(f"{self._prefix}{name}", NOT_SET, expected, rule)

    def _take_longest(self, allowed: Allowed) -> None:
        if isinstance(allowed, Range) and allowed.most is not None:
            self._set(allowed.most)

    def _require(self, field: str, allowed: tuple[Rule, Allowed] | None) -> None:
        required = self._ruling.required.get(field)
        if required is None or field in self._settled:
            return
        rule, name = required
        text = "a value" if allowed is None else allowed[1].text
        self._refuse(f"{self._prefix}{name}", NOT_SET, text, rule)

    def _refuse(self, key: str, value: str, expected: str, rule: Rule) -> None:
        text = f"{expected} (policy rule {rule.name!r})"
        self.problems.append(Refusal(key, value, text, rule=rule.name))

    def _set(self, value: Value) -> None:
        self.annotations[f"{self._prefix}{value.name}"] = value.text
        self._settled[BY_KEY[value.name].field] = value.text


_UNREADABLE: Final = object()


def _requested_values(
    annotations: Mapping[str, str], prefixes: Sequence[str]
) -> dict[str, dict[str, Value]]:
    """What the pod asks for: keys and values under the scheduler's prefixes, by field."""
    found: dict[str, dict[str, Value]] = {}
    for prefix in dict.fromkeys(prefixes):
        for key, text in annotations.items():
            definition = BY_KEY.get(key.removeprefix(prefix)) if key.startswith(prefix) else None
            if definition is not None:
                found.setdefault(definition.field, {})[key] = _value_of(definition.key, text)
    return found


def _value_of(name: str, text: str) -> Value:
    try:
        return Value(name, text, BY_KEY[name].kind.read(text))
    except NotAcceptableError:
        return Value(name, text, _UNREADABLE)


def _root_text(key: str) -> str:
    return f"{key} asks for a Slurm job of user 0 (root); a policy file can forbid or allow that"
