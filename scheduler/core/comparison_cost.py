"""The cost of comparing a pod's terms and constraints with other pods, and its limits.

The unit is the search for one text in a pod's labels, which takes a tenth of a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.core.labels import Selector
from scheduler.core.node_suitability import Wishes
from scheduler.core.pod_affinity import Crowd, PodTerm
from scheduler.core.spread import Constraint

MOST_TERMS: Final = 8
"""Limit for required terms and constraints of all kinds together, for one pod."""
MOST_CONSTRAINTS: Final = 4
"""Limit for constraints among them: for each constraint, every bind goes through the Nodes of its
pods, which takes 0.7 ms for 5000 Nodes.
"""
MOST_TEXTS: Final = 64
"""Limit for the labels, values and namespaces in them together: each is searched in every pod's
labels. The API server accepts a megabyte of them.
"""
# The API server accepts any number of terms. No more terms than this are read from any pod, even
# another scheduler's; a pod of ours with more is refused.
MOST_TERMS_READ: Final = 16
MOST_WORDS_READ: Final = 256
"""Limit for namespaces, expressions and values in one term, each of which may be compared with each
waiting pod.
"""

_AFFINITY_TEXTS: Final = 10
_EXPRESSION_TEXTS: Final = 6
_TOLERATION_TEXTS: Final = 2


def term_weight(term: PodTerm) -> int:
    """How many texts are compared for each pod."""
    namespaces = len(term.namespaces) + _number_of_texts(term.namespace_selector)
    return 1 + _number_of_texts(term.selector) + namespaces


def crowd_weight(crowd: Crowd) -> int:
    """How many texts are compared for each pod."""
    return sum(map(term_weight, crowd.terms))


def wishes_weight(wishes: Wishes) -> int:
    """The cost of comparing a pod's requirements with one Node, in texts: node affinity costs ten,
    each of its expressions six, a value a quarter, and a toleration two.
    """
    found = [
        it for term in wishes.terms or () for it in (*term.match_expressions, *term.match_fields)
    ]
    expressions = sum(_EXPRESSION_TEXTS + len(it.values) // 4 for it in found)
    affinity = 0 if wishes.terms is None else _AFFINITY_TEXTS + expressions
    return affinity + _TOLERATION_TEXTS * len(wishes.tolerations) + len(wishes.selector)


def too_much(terms: Iterable[PodTerm], constraints: Iterable[Constraint]) -> str:
    """What a pod has too much of, in words; "" if it is within the limits."""
    spread = [2 + _number_of_texts(it.selector) for it in constraints]
    weights = [*map(term_weight, terms), *spread]
    if len(weights) > MOST_TERMS:
        return f"{len(weights)} terms and constraints"
    if len(spread) > MOST_CONSTRAINTS:
        return f"{len(spread)} constraints"
    if sum(weights) > MOST_TEXTS:
        return f"{sum(weights)} labels, values and namespaces"
    return ""


def _number_of_texts(selector: Selector | None) -> int:
    if selector is None:
        return 0
    return sum(max(1, len(it.values)) for it in selector.requirements)
