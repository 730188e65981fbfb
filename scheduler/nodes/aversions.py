"""The required anti-affinity of running pods: the Nodes from which it keeps another pod away.

Each look at a pod needs this, and any user may run pods with terms about all namespaces. So terms
are indexed by a label that they require, and a pod is compared only with the terms that its labels
may match. The number of comparisons is limited, so that a look takes bounded time whatever terms
users write.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.comparison_cost import term_weight
from scheduler.core.pod_affinity import PodTerm

MOST_OWN: Final = 2048
"""Limit of items that one pod is compared with, for terms about its own namespace only; this many
take 0.3 ms. A term has `_TERM_ITEMS` items and one for each text in it (core.comparison_cost).
"""
MOST_OF_ANOTHER: Final = 64
"""The same limit for one other namespace's terms about several namespaces."""
MOST_OF_OTHERS: Final = 1024
"""The same limit for such terms of all namespaces together."""
_TERM_ITEMS: Final = 3
# A term that matches the pod costs one more item for this many Nodes, because each Node that is
# judged later is searched among them.
_NODES_AN_ITEM: Final = 16
# Answers are kept until a term is added or removed, because one look needs the same answer three
# times.
_REMEMBERED: Final = 64
_ANYWHERE: Final = ""
_ANY_LABEL: Final = ""


@dataclass(eq=False, slots=True)
class _Filed:
    """A term of pods of one namespace, and how many of those pods are on each Node."""

    term: PodTerm
    items: int
    place: tuple[str, str]
    nodes: dict[str, int] = field(default_factory=dict)


class _ComparisonAllowance:
    """How many items a pod may still be compared with. The last term may exceed the limit."""

    def __init__(self, of_each: int, of_all: int) -> None:
        self._of_each, self._of_all = of_each, of_all
        self._by_owner: dict[str, int] = {}
        self.spent = 0

    @property
    def left(self) -> bool:
        """Whether anything is left."""
        return self.spent < self._of_all

    def left_to(self, owner: str) -> bool:
        """Whether anything is left for terms of this namespace."""
        return self.left and self._by_owner.get(owner, 0) < self._of_each

    def charge(self, owner: str, items: int) -> None:
        """Note that this many items were compared."""
        self.spent += items
        self._by_owner[owner] = self._by_owner.get(owner, 0) + items


Repelling = Mapping[str, Sequence[AbstractSet[str]]]
"""Sets of Nodes whose pods repel a pod, by the Node label that says how far this reaches (topology
key).
"""


class Aversions:
    """The terms of all running pods. `compared` counts the items that were compared. `ended` counts
    how often a term's last pod has left a Node, so that a pod that it kept away may fit there.
    """

    def __init__(self) -> None:
        self._terms: dict[tuple[str, PodTerm], _Filed] = {}
        # The outer key is the only namespace that the terms are about and a label that they
        # require. The inner key is the namespace of the pods that have the terms; oldest first.
        self._files: dict[tuple[str, str], dict[str, dict[_Filed, None]]] = {}
        self._answers: OrderedDict[tuple[str, str], tuple[_Filed, ...]] = OrderedDict()
        self.compared = 0
        self.ended = 0

    def change_count(self, namespace: str, terms: Iterable[PodTerm], node: str, by: int) -> None:
        """Add (or remove, if `by` is negative) pods of a namespace with these terms on a Node."""
        for term in terms:
            filed = self._terms.get((namespace, term)) or self._file(namespace, term)
            before = filed.nodes.get(node, 0)
            filed.nodes[node] = before + by
            if not filed.nodes[node]:
                del filed.nodes[node]
                self.ended += 1
            if not filed.nodes:
                self._unfile(namespace, filed)
            if 0 in {before, before + by}:
                self._answers.clear()

    def repelling(self, namespace: str, labels: str) -> Repelling:
        """The Nodes of pods whose terms match a pod with these labels (`packed`)."""
        found: dict[str, list[AbstractSet[str]]] = {}
        if not self._terms:
            return found
        for it in self._against(namespace, labels):
            found.setdefault(it.term.topology_key, []).append(it.nodes.keys())
        return found

    def _file(self, namespace: str, term: PodTerm) -> _Filed:
        about = namespace if term.speaks_only_of(namespace) else _ANYWHERE
        required = () if term.selector is None else term.selector.required
        places = [(about, label) for label in required] or [(about, _ANY_LABEL)]
        # A label that many terms require (`app=database`) selects badly. So a term is indexed by
        # the label that fewest terms of the namespace are indexed by (`instance=accounts`).
        place = min(places, key=lambda it: len(self._files.get(it, {}).get(namespace, ())))
        filed = _Filed(term, term_weight(term) + _TERM_ITEMS, place)
        self._terms[namespace, term] = filed
        self._files.setdefault(place, {}).setdefault(namespace, {})[filed] = None
        return filed

    def _unfile(self, namespace: str, filed: _Filed) -> None:
        del self._terms[namespace, filed.term]
        file = self._files[filed.place]
        del file[namespace][filed]
        if not file[namespace]:
            del file[namespace]
        if not file:
            del self._files[filed.place]

    def _against(self, namespace: str, labels: str) -> tuple[_Filed, ...]:
        found = self._answers.get((namespace, labels))
        if found is None:
            own = self._within(
                namespace, namespace, labels, _ComparisonAllowance(MOST_OWN, MOST_OWN)
            )
            allowed = _ComparisonAllowance(MOST_OF_ANOTHER, MOST_OF_OTHERS)
            others = self._within(_ANYWHERE, namespace, labels, allowed)
            found = self._answers[namespace, labels] = (*own, *others)
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
        return found

    def _within(
        self, about: str, namespace: str, labels: str, allowed: _ComparisonAllowance
    ) -> Iterator[_Filed]:
        """The matching terms: first those that require a label of the pod, then those that require
        none.
        """
        for label in (*labels.split("\n")[1:-1], _ANY_LABEL):
            for owner, terms in self._files.get((about, label), {}).items():
                if not allowed.left:
                    break
                for filed in terms:
                    if not allowed.left_to(owner):
                        break
                    allowed.charge(owner, filed.items)
                    if filed.term.matches(namespace, labels):
                        allowed.charge(owner, len(filed.nodes) // _NODES_AN_ITEM)
                        yield filed
        self.compared += allowed.spent
