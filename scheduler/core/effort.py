"""What it costs to compare a pod's terms and constraints with other pods, and how much it may ask.

The unit is a text that is looked for in the labels of a pod: a tenth of a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.core.labels import Selector
from scheduler.core.node_suitability import Wishes
from scheduler.core.pod_affinity import Crowd, PodTerm
from scheduler.core.spread import Constraint

MOST_TERMS: Final = 8
"""Required terms and constraints of one pod, all kinds together."""
MOST_CONSTRAINTS: Final = 4
"""Constraints among them: each has the Nodes of its pods gone through before each bind, 0.7 ms for
5000.
"""
MOST_TEXTS: Final = 64
"""Labels, values and namespaces in them, together: each is looked for in every pod's labels. The
API server takes a megabyte of them.
"""
# The API server takes any number of terms. Of any pod, be it another scheduler's that is on a Node
# already, no more than this is read; one of ours that has more is refused.
MOST_TERMS_READ: Final = 16
MOST_WORDS_READ: Final = 256
"""Namespaces, expressions and values of one term: each may be compared with each pod that waits."""

_AFFINITY_TEXTS: Final = 10
_EXPRESSION_TEXTS: Final = 6
_TOLERATION_TEXTS: Final = 2


def weight(term: PodTerm) -> int:
    """How many texts are compared for one pod."""
    namespaces = len(term.namespaces) + _texts(term.namespace_selector)
    return 1 + _texts(term.selector) + namespaces


def crowd_weight(crowd: Crowd) -> int:
    """How many texts are compared for one pod."""
    return sum(map(weight, crowd.terms))


def wishes_weight(wishes: Wishes) -> int:
    """What it costs to compare what a pod wishes with one Node, as if it were texts: node affinity
    takes as long as ten, each expression of it six, a value a quarter, and a toleration two.
    """
    found = [
        it for term in wishes.terms or () for it in (*term.match_expressions, *term.match_fields)
    ]
    expressions = sum(_EXPRESSION_TEXTS + len(it.values) // 4 for it in found)
    affinity = 0 if wishes.terms is None else _AFFINITY_TEXTS + expressions
    return affinity + _TOLERATION_TEXTS * len(wishes.tolerations) + len(wishes.selector)


def too_much(terms: Iterable[PodTerm], constraints: Iterable[Constraint]) -> str:
    """What one pod has too much of, as it was given; empty where it is within bounds."""
    spread = [2 + _texts(it.selector) for it in constraints]
    weights = [*map(weight, terms), *spread]
    if len(weights) > MOST_TERMS:
        return f"{len(weights)} terms and constraints"
    if len(spread) > MOST_CONSTRAINTS:
        return f"{len(spread)} constraints"
    if sum(weights) > MOST_TEXTS:
        return f"{sum(weights)} labels, values and namespaces"
    return ""


def _texts(selector: Selector | None) -> int:
    if selector is None:
        return 0
    return sum(max(1, len(it.values)) for it in selector.requirements)
