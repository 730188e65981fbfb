"""Whether a Node's own state, labels and taints allow a pod, by kube-scheduler's rules, and if not,
why not. Pure. Resources, ports, affinity between pods and volumes: `nodes/fit.py`.

The structs have the API's own shapes (`scheduler.kube.wire` decodes into them). One rule is
stricter than kube-scheduler's: a Node that is not ready or is cordoned is refused whatever the pod
tolerates, because a blanket toleration does not mean that a dead Node is wanted.

What is done with an allocation on an unfit Node is decided in `waiting.py` (`_unfit`). It is kept
for UNFIT_SECONDS (`intervals.py`) if the obstacle may pass (`Unfit.passes`), as a cordon may.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import msgspec

# The kubelet and the node controller remove such taints themselves once the cause is gone.
_PASSING_PREFIXES: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_LASTING_TAINTS: Final = frozenset(
    {"node.kubernetes.io/out-of-service", "node.cloudprovider.kubernetes.io/shutdown"}
)
_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_NODE_NAME: Final = "metadata.name"
# Valid label values. For any other value kube-scheduler ignores the whole term.
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
# The syntax of Go's ParseInt, base 10.
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_LONGEST_INTEGER: Final = 20
_MOST_SHOWN: Final = 3
_LONGEST_SHOWN: Final = 63


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A reason why pods may not go to a Node."""

    key: str = ""
    effect: str = ""
    value: str = ""

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


class Toleration(msgspec.Struct, frozen=True, gc=False):
    """Taints that a pod tolerates. An empty key with `Exists` means all keys, an empty effect all
    effects.
    """

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Requirement(msgspec.Struct, frozen=True, gc=False):
    """One expression about a label or field: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = [value[:_LONGEST_SHOWN] for value in self.values[:_MOST_SHOWN]]
        more = len(self.values) - len(shown)
        rest = f", and {more} more" if more else ""
        values = f" [{', '.join(shown)}{rest}]" if shown else ""
        return f"{self.key} {self.operator}{values}"


class Term(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Expressions that must all match; a term without any matches nothing."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class Wishes(msgspec.Struct, frozen=True):
    """What a pod requires of its Node.

    `selector` has labels, sorted. `terms` is its required node affinity, of which one term must
    match; None if it has none.
    """

    selector: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What matters here of a Kubernetes Node."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    ready: bool = True
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """How much pods may request of it together, in the units of `core.node_requests`."""


class Unfit(msgspec.Struct, frozen=True):
    """Why a pod may not go to a Node, as the rest of a sentence that begins with the Node's name.

    `passes` says that waiting for a short time may help (`waiting._unfit` decides how long), and
    `occupied` that other pods there have what this pod wants.
    """

    why: str
    passes: bool = False
    occupied: bool = False

    def __str__(self) -> str:
        return self.why


class Place(msgspec.Struct, frozen=True):
    """The Kubernetes Node `target` behind a Slurm node, and why the pod cannot go there.

    Without a target, `unfit` says why there is no Node.
    """

    target: str
    unfit: Unfit | None = None


def fitness(wishes: Wishes, node: NodeFacts) -> Unfit | None:
    """None if the pod may go to the Node. Reasons that waiting cannot cure are checked first."""
    lasting = unsuitable(wishes, node)
    if lasting is not None:
        return lasting
    if not node.ready:
        return Unfit("is not ready", passes=True)
    if node.unschedulable:
        return Unfit("is cordoned", passes=True)
    taint = _first_taint(wishes, node, passing=True)
    return None if taint is None else _tainted(taint, passes=True)


def unsuitable(wishes: Wishes, node: NodeFacts) -> Unfit | None:
    """The part of `fitness` that stays until somebody changes the Node or the pod."""
    failed = _mismatch(wishes, node)
    if failed:
        return Unfit(failed)
    taint = _first_taint(wishes, node, passing=False)
    return None if taint is None else _tainted(taint, passes=False)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether this toleration covers that taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt":
            return _compares(taint.value, toleration.operator, toleration.value)
        case _:
            return False


def matches(terms: tuple[Term, ...], node: NodeFacts) -> bool:
    """Whether any of the terms matches the Node."""
    return any(_term_matches(term, node) for term in terms)


def selects(wishes: Wishes, node: NodeFacts) -> bool:
    """Whether the pod's nodeSelector and required node affinity match the Node."""
    if any(node.labels.get(key) != value for key, value in wishes.selector):
        return False
    return wishes.terms is None or matches(wishes.terms, node)


def tolerates_all(wishes: Wishes, node: NodeFacts) -> bool:
    """Whether the pod tolerates every taint that keeps pods off the Node."""
    return all(
        any(tolerates(toleration, taint) for toleration in wishes.tolerations)
        for taint in node.taints
        if taint.effect in _HARD
    )


def _first_taint(wishes: Wishes, node: NodeFacts, *, passing: bool) -> Taint | None:
    hard = (it for it in node.taints if it.effect in _HARD and _is_passing(it) is passing)
    for taint in hard:
        if not any(tolerates(toleration, taint) for toleration in wishes.tolerations):
            return taint
    return None


def _is_passing(taint: Taint) -> bool:
    return taint.key.startswith(_PASSING_PREFIXES) and taint.key not in _LASTING_TAINTS


def _tainted(taint: Taint, *, passes: bool) -> Unfit:
    return Unfit(f"has the taint {taint}, which the pod does not tolerate", passes)


def _mismatch(wishes: Wishes, node: NodeFacts) -> str:
    """Which label or expression does not match; "" if all do."""
    for key, value in wishes.selector:
        if node.labels.get(key) != value:
            return f"has {_label_text(node, key)}, and the pod's nodeSelector wants {key}={value}"
    if wishes.terms is None or matches(wishes.terms, node):
        return ""
    return f"does not match the pod's required node affinity ({_failed_terms(wishes.terms, node)})"


def _label_text(node: NodeFacts, key: str) -> str:
    value = node.labels.get(key)
    return f"no label {key}" if value is None else f"the label {key}={value}"


def _failed_terms(terms: tuple[Term, ...], node: NodeFacts) -> str:
    """For each of the first terms, its first expression that does not match."""
    failed = [_first_failed(term, node) for term in terms[:_MOST_SHOWN]]
    more = [f"and {len(terms) - _MOST_SHOWN} more terms"] if len(terms) > _MOST_SHOWN else []
    return "; ".join([*failed, *more]) or "no terms, which match nothing"


def _first_failed(term: Term, node: NodeFacts) -> str:
    for requirement in term.match_expressions:
        if not _label_holds(requirement, node.labels):
            return str(requirement)
    for requirement in term.match_fields:
        if not _field_holds(requirement, node.name):
            return str(requirement)
    return "an empty term, which matches nothing"


def _term_matches(term: Term, node: NodeFacts) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(_label_holds(it, node.labels) for it in term.match_expressions) and all(
        _field_holds(it, node.name) for it in term.match_fields
    )


def _label_holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """As in kube-scheduler, a malformed expression matches nothing, not even with NotIn."""
    rule = _RULES.get(requirement.operator)
    return rule is not None and rule(labels.get(requirement.key), requirement.values)


def _among(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None and value in values and _are_labels(values)


def _not_among(value: str | None, values: tuple[str, ...]) -> bool:
    return value not in values and bool(values) and _are_labels(values)


# Larger than the number of expressions that one pod may have, because each is evaluated for one
# Node after the other.
@lru_cache(maxsize=128)
def _are_labels(values: tuple[str, ...]) -> bool:
    return all(_LABEL_VALUE.fullmatch(value) for value in values)


def _compared(operator: str) -> Callable[[str | None, tuple[str, ...]], bool]:
    def holds(value: str | None, values: tuple[str, ...]) -> bool:
        one = value is not None and len(values) == 1 and _are_labels(values)
        return one and _compares(value or "", operator, values[0])

    return holds


_RULES: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": _among,
    "NotIn": _not_among,
    "Exists": lambda value, values: value is not None and not values,
    "DoesNotExist": lambda value, values: value is None and not values,
    "Gt": _compared("Gt"),
    "Lt": _compared("Lt"),
}


def _field_holds(requirement: Requirement, name: str) -> bool:
    """The only field that Nodes can be selected by is their name; any other is empty everywhere."""
    if len(requirement.values) != 1:
        return False
    value = name if requirement.key == _NODE_NAME else ""
    match requirement.operator:
        case "In":
            return value == requirement.values[0]
        case "NotIn":
            return value != requirement.values[0]
        case _:
            return False


def _compares(value: str, operator: str, bound: str) -> bool:
    left, right = _go_integer(value), _go_integer(bound)
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _go_integer(text: str) -> int | None:
    """The 64-bit integer, as Go would parse it; None if it is not one."""
    return None if len(text) > _LONGEST_INTEGER else _parsed(text)


@lru_cache(maxsize=256)
def _parsed(text: str) -> int | None:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
