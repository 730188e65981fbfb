"""topologySpreadConstraints with DoNotSchedule, by kube-scheduler's rules."""

from __future__ import annotations

from collections.abc import Container, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from scheduler.core.labels import Selector
from scheduler.core.node_suitability import NodeFacts, Wishes, selects, tolerates_all
from scheduler.core.pod_affinity import Counted, Crowd, PodTerm


@dataclass(frozen=True, slots=True)
class Constraint:
    """How unevenly the pods that `selector` matches may be spread over the values of a Node label.

    `by_affinity` and `by_taints` say whether Nodes that the pod cannot go to are left out.
    """

    max_skew: int
    topology_key: str
    selector: Selector | None
    min_domains: int = 1
    by_affinity: bool = True
    by_taints: bool = False


class Domains:
    """The values that one pod's constraints distinguish, and the value that each Node counts for.

    `put` must be called once for each Node, and again when a Node was added, removed or changed.
    """

    def __init__(self, constraints: tuple[Constraint, ...], wishes: Wishes) -> None:
        self._constraints = constraints
        self._wishes = wishes
        self._keys = frozenset(it.topology_key for it in constraints)
        # For each constraint, how many Nodes count for each value.
        self._nodes: list[dict[str, int]] = [{} for _ in constraints]
        self.by_node: list[dict[str, str]] = [{} for _ in constraints]
        """For each constraint, the value that each Node counts for, by the Node's name."""

    def put(self, name: str, node: NodeFacts | None) -> None:
        """Set a Node's present state; None if it is gone."""
        counts = () if node is None else self._counting(node)
        for number, (by_node, nodes) in enumerate(zip(self.by_node, self._nodes, strict=True)):
            former = by_node.pop(name, None)
            if former is not None:
                nodes[former] -= 1
                if not nodes[former]:
                    del nodes[former]
            if node is not None and number in counts:
                value = node.labels[self._constraints[number].topology_key]
                by_node[name] = value
                nodes[value] = nodes.get(value, 0) + 1

    def values(self, number: int) -> AbstractSet[str]:
        """The values that this constraint distinguishes."""
        return self._nodes[number].keys()

    def _counting(self, node: NodeFacts) -> Container[int]:
        """The numbers of the constraints that the Node counts for."""
        if not self._keys <= node.labels.keys():
            return ()
        kinds = {(it.by_affinity, it.by_taints) for it in self._constraints}
        counted = {kind for kind in kinds if _included(*kind, self._wishes, node)}
        return {
            number
            for number, it in enumerate(self._constraints)
            if (it.by_affinity, it.by_taints) in counted
        }


class Spread:
    """Checks Nodes by the constraints of one pod."""

    def __init__(
        self,
        constraints: tuple[Constraint, ...],
        domains: Domains,
        *,
        namespace: str,
        labels: str,
        count: Counted,
    ) -> None:
        self._constraints = constraints
        self._self = [it.selector is not None and it.selector.matches(labels) for it in constraints]
        self._there: list[dict[str, int]] = []
        self._least: list[int] = []
        for number, constraint in enumerate(constraints):
            by_node, values = domains.by_node[number], domains.values(number)
            there = dict.fromkeys(values, 0)
            for node, pods in _counts(constraint, namespace, count).items():
                value = by_node.get(node)
                if value is not None:
                    there[value] += pods
            enough = len(values) >= max(constraint.min_domains, 1)
            self._there.append(there)
            self._least.append(min(there.values()) if enough else 0)

    def complaint(self, node: NodeFacts) -> str:
        """Why the pod cannot go there, as the rest of a sentence; "" if it can."""
        for number, constraint in enumerate(self._constraints):
            key = constraint.topology_key
            value = node.labels.get(key)
            if value is None:
                return f"has no label {key}, which the pod's topologySpreadConstraints need"
            here, least = self._there[number].get(value, 0), self._least[number]
            if here + self._self[number] - least > constraint.max_skew:
                return (
                    f"is in {key}={value} with {here} such pods where the fewest are {least}, and "
                    "the pod's topologySpreadConstraints allow "
                    f"a maxSkew of {constraint.max_skew}"
                )
        return ""


def _included(by_affinity: bool, by_taints: bool, wishes: Wishes, node: NodeFacts) -> bool:
    if by_affinity and not selects(wishes, node):
        return False
    return not by_taints or tolerates_all(wishes, node)


def crowd_of(constraint: Constraint, namespace: str) -> Crowd | None:
    """The pods to count; kube-scheduler counts none if the selector has no requirements."""
    if constraint.selector is None or not constraint.selector.requirements:
        return None
    return Crowd((PodTerm("", constraint.selector, (namespace,)),), staying=True)


def _counts(constraint: Constraint, namespace: str, count: Counted) -> Mapping[str, int]:
    crowd = crowd_of(constraint, namespace)
    return {} if crowd is None else count(crowd)
