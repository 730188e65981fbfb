"""Finds the type of GPU that a pod requires, from the Nodes it may go to.

A pod names the type in its node selector or required node affinity, under one of the site's label
keys. The label's value is translated into a gres type by the site's map or, without an entry there,
by the types that Slurm has. If the site has a map, a pod can be refused for a wrong value. Without
a map no pod is refused for its value: its Nodes may have GPUs without a type, and then it gets any
GPU that its Nodes have.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from annotations.model import AffinityExpression, PodView, Rules
from annotations.problems import Problem

_SELECTOR = "spec.nodeSelector"
_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
# Splits values such as "H100_NVLINK_80GB" or "NVIDIA-H100-80GB-HBM3" into words, among which a
# type's name is searched.
_BETWEEN_WORDS = re.compile(r"[^a-z0-9.]+")

Types = frozenset[str] | None
"""The acceptable types; None if any type is acceptable."""


class UnknownTypeError(Exception):
    """None of the types that the pod would accept has a gres type."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.text)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class _TypeReader:
    """Reads selector and affinity by the site's rules."""

    rules: Rules

    def types(self, pod: PodView) -> Types:
        selected = (
            self._types_of(f"{_SELECTOR}[{key}]", [pod.node_selector[key]])
            for key in self.rules.gpu_type_keys
            if key in pod.node_selector
        )
        return _all_of([*selected, self._of_terms(pod.node_affinity or ())])

    def _of_terms(self, terms: Iterable[tuple[AffinityExpression, ...]]) -> Types:
        """The types that the terms allow. One matching term is enough, so a term without types
        allows all types.
        """
        return _union_if_all_known([_all_of(self._of_term(term)) for term in terms])

    def _of_term(self, term: Iterable[AffinityExpression]) -> Iterator[Types]:
        for it in term:
            if it.operator == "In" and it.key in self.rules.gpu_type_keys:
                yield self._types_of(f"{_AFFINITY}[{it.key}]", it.values)

    def _types_of(self, field: str, values: Iterable[str]) -> Types:
        """The gres types of these values. If the site has a map, values without an entry are
        ignored when other values have one.
        """
        values = tuple(values)
        types = [self._type(value) for value in values]
        found = frozenset(filter(None, types))
        if not self.rules.gpu_types:
            return None if None in types else found
        if not values or found:
            return found
        if self.rules.known_gpu_types is None:
            return None
        expected = f"a GPU type that Slurm has: {', '.join(self._names())}"
        raise UnknownTypeError(Problem(field, ",".join(values), expected))

    def _type(self, value: str) -> str | None:
        mapped = self.rules.gpu_types.get(value)
        if mapped is not None:
            return mapped
        whole = _split_words(value)
        names = self.rules.known_gpu_types or ()
        known = sorted(names, key=lambda name: (-len(_split_words(name)), name))
        return next((name for name in known if _within(_split_words(name), whole)), None)

    def _names(self) -> list[str]:
        return sorted({*self.rules.gpu_types, *(self.rules.known_gpu_types or ())})


def gpu_type(pod: PodView, rules: Rules) -> str | None:
    """The one acceptable gres type. None if any type is acceptable, or several are, because Slurm
    cannot be asked for "this type or that". Raises UnknownTypeError.
    """
    types = _TypeReader(rules).types(pod)
    if types is None or len(types) > 1 or not (types or rules.gpu_types):
        return None
    if not types:
        expected = "terms that some GPU type meets together"
        raise UnknownTypeError(Problem(f"{_SELECTOR} and {_AFFINITY}", "no GPU type", expected))
    return next(iter(types))


def _all_of(several: Iterable[Types]) -> Types:
    found: Types = None
    for types in several:
        if types is not None:
            found = types if found is None else found & types
    return found


def _union_if_all_known(several: list[Types]) -> Types:
    known = [types for types in several if types is not None]
    return frozenset().union(*known) if known and len(known) == len(several) else None


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, _BETWEEN_WORDS.split(text.lower())))


def _within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    return any(
        whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1)
    ) and bool(part)
