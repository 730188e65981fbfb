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
from functools import lru_cache
from typing import Final

from annotations.model import AffinityExpression, PodView, Rules
from annotations.problems import Problem

_SELECTOR = "spec.nodeSelector"
_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
# Splits values such as "H100_NVLINK_80GB" or "NVIDIA-H100-80GB-HBM3" into words, among which a
# type's name is searched.
_BETWEEN_WORDS = re.compile(r"[^a-z0-9.]+")
LONGEST_LABEL: Final = 63
"""The most characters that Kubernetes allows in the value of a label. No Node has a longer value,
but a pod's author may write one of any length into an affinity expression.
"""

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
        if len(value) > LONGEST_LABEL:
            return None
        mapped = self.rules.gpu_types.get(value)
        if mapped is not None:
            return mapped
        whole = _words(value)
        known = _words_of_types(self.rules.known_gpu_types or frozenset())
        return next((name for words, name in known if words in whole), None)

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


@lru_cache(maxsize=8)
def _words_of_types(names: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """The words and the name of each type, those with most words first. This is worked out once,
    because a pod may have hundreds of values and a cluster dozens of types.
    """
    found = [(_words(name), name) for name in names]
    return tuple(sorted((it for it in found if it[0].strip()), key=_most_words_first))


def _most_words_first(it: tuple[str, str]) -> tuple[int, str]:
    words, name = it
    return (-len(words.split()), name)


def _words(text: str) -> str:
    """The words of the text with a space before and after each, so that words which follow one
    another in a value are found by searching a text in a text.
    """
    return f" {_BETWEEN_WORDS.sub(' ', text.lower()).strip()} "
