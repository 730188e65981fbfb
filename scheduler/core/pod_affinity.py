"""Required pod affinity and anti-affinity, of a pod and of running pods, by kube-scheduler's rules.

This module does not go through pods: the caller counts how many pods of a crowd are on each Node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from scheduler.core.labels import Selector, packed
from scheduler.core.node_suitability import NodeFacts
from scheduler.core.topology import Near, Topology

# The only label of a Namespace that is known without reading it: the API server sets it.
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
_READ: Final = frozenset({_NAMESPACE_NAME})


@lru_cache(maxsize=1024)
def _name_label_of(namespace: str) -> str:
    return packed({_NAMESPACE_NAME: namespace})


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods by namespace and label, and the Node label whose value says what is near.

    `namespaces` are names; `namespace_selector` adds those whose labels match.
    """

    topology_key: str
    selector: Selector | None
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None = None

    @property
    def readable(self) -> bool:
        """Whether we can tell which namespaces it selects, since we do not read their other
        labels.
        """
        found = self.namespace_selector
        return found is None or found.keys <= _READ

    @property
    def words(self) -> int:
        """How many texts must be compared with each pod."""
        selectors = filter(None, (self.selector, self.namespace_selector))
        return len(self.namespaces) + sum(it.words for it in selectors)

    def speaks_only_of(self, namespace: str) -> bool:
        """Whether it selects pods of this namespace only."""
        return self.namespace_selector is None and self.namespaces == (namespace,)

    def matches(self, namespace: str, labels: str) -> bool:
        """Whether it selects a pod with these labels (`packed`). True if we cannot tell for its
        namespace.
        """
        if self.selector is None or not self.selector.matches(labels):
            return False
        return self._means(namespace)

    def _means(self, namespace: str) -> bool:
        if namespace in self.namespaces:
            return True
        if self.namespace_selector is None:
            return False
        return not self.readable or self.namespace_selector.matches(_name_label_of(namespace))

    def __str__(self) -> str:
        """A text for messages. No selector matches no pod; an empty one matches all."""
        found = (
            "no pod" if self.selector is None else ", ".join(map(str, self.selector.requirements))
        )
        return f"{found or 'all pods'} by {self.topology_key}"


@dataclass(frozen=True, slots=True)
class Crowd:
    """The pods that match all of these terms. With `staying`, those that are being deleted do not
    count.
    """

    terms: tuple[PodTerm, ...]
    staying: bool = False

    def holds(self, namespace: str, labels: str) -> bool:
        """Whether a pod belongs to the crowd."""
        for term in self.terms:  # noqa: SIM110 - a generator would take as long as all the rest
            if not term.matches(namespace, labels):
                return False
        return True


Counted = Callable[[Crowd], Mapping[str, int]]
"""How many pods of a crowd are on each Node, by the Node's name."""


class AffinityFilter:
    """Checks Nodes by the affinity of one pod and the anti-affinity of running pods.

    `repelling` has the Nodes whose pods repel this one, by topology key. Nothing is searched before
    the first Node is checked.
    """

    def __init__(
        self,
        near: tuple[PodTerm, ...],
        apart: tuple[PodTerm, ...],
        *,
        namespace: str,
        labels: str,
        count: Counted,
        topology: Topology,
        repelling: Mapping[str, Sequence[AbstractSet[str]]],
    ) -> None:
        self._namespace, self._labels = namespace, labels
        self._together = Crowd(near)
        crowd = count(self._together).keys() if near else frozenset()
        self._near = [(it, Near(it.topology_key, (crowd,), topology)) for it in near]
        self._apart = [
            (it, Near(it.topology_key, (count(Crowd((it,))).keys(),), topology)) for it in apart
        ]
        self._repelling = [Near(key, groups, topology) for key, groups in repelling.items()]

    def complaint(self, node: NodeFacts) -> str:
        """Why the pod cannot go there, as the rest of a sentence; "" if it can."""
        return self._lonely(node) or self._crowded(node) or self._unwelcome(node)

    def _lonely(self, node: NodeFacts) -> str:
        missing = ""
        for term, there in self._near:
            if term.topology_key not in node.labels:
                return (
                    f"has no label {term.topology_key}, which the pod's required podAffinity needs"
                )
            if not missing and not there.holds(node):
                missing = f"is not near the pods of the pod's required podAffinity ({term})"
        return missing if missing and not self._first else ""

    @cached_property
    def _first(self) -> bool:
        """Whether the pod is the first of a group that wants to be together; it may go anywhere."""
        if any(there.anywhere() for _, there in self._near):
            return False
        return self._together.holds(self._namespace, self._labels)

    def _crowded(self, node: NodeFacts) -> str:
        for term, taken in self._apart:
            if taken.holds(node):
                return f"is near a pod of the pod's required podAntiAffinity ({term})"
        return ""

    def _unwelcome(self, node: NodeFacts) -> str:
        for near in self._repelling:
            if near.holds(node):
                return (
                    "is near a pod whose own required podAntiAffinity keeps this pod away "
                    f"({near.key}={node.labels[near.key]})"
                )
        return ""
