"""Which Nodes share the value of a label, such as a zone, a rack or a host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from scheduler.core.node_suitability import NodeFacts

_NOBODY: Final[AbstractSet[str]] = frozenset()


class Topology:
    """Names of Nodes by the values of their labels. `nodes` returns all Nodes; it is called once
    for each label that is asked about, and `changed` keeps the answer up to date.

    Ask only about labels that some Node has: users choose the topology keys of their pods, and each
    label that is asked about is remembered.
    """

    def __init__(self, nodes: Callable[[], Iterable[NodeFacts]]) -> None:
        self._nodes = nodes
        self._by_label: dict[str, dict[str, set[str]]] = {}

    def sharing(self, key: str, value: str) -> AbstractSet[str]:
        """The Nodes whose label has this value."""
        return self._values(key).get(value, _NOBODY)

    def holds_any(self, key: str, names: AbstractSet[str]) -> bool:
        """Whether any of these Nodes has the label."""
        return not all(map(names.isdisjoint, self._values(key).values()))

    def changed(self, old: NodeFacts | None, new: NodeFacts | None) -> None:
        """A Node was added, removed or changed."""
        for key, found in self._by_label.items():
            if old is not None:
                _remove(found, old.labels.get(key), old.name)
            if new is not None:
                _add_node(found, new.labels.get(key), new.name)

    def _values(self, key: str) -> dict[str, set[str]]:
        found = self._by_label.get(key)
        if found is None:
            found = self._by_label[key] = {}
            for node in self._nodes():
                _add_node(found, node.labels.get(key), node.name)
        return found


class Near:
    """Whether a Node shares a label's value with one of the Nodes in `groups`. Each value is looked
    up once: a label has few values, or few Nodes for each.
    """

    def __init__(self, key: str, groups: Sequence[AbstractSet[str]], topology: Topology) -> None:
        self.key = key
        self._groups = groups
        self._topology = topology
        self._known: dict[str, bool] = {}

    def holds(self, node: NodeFacts) -> bool:
        """Whether this Node is near. A Node without the label never is."""
        value = node.labels.get(self.key)
        if value is None:
            return False
        known = self._known.get(value)
        if known is None:
            sharing = self._topology.sharing(self.key, value)
            known = self._known[value] = not all(it.isdisjoint(sharing) for it in self._groups)
        return known

    def anywhere(self) -> bool:
        """Whether any Node is near. Ask only if some Node has the label."""
        return any(self._topology.holds_any(self.key, it) for it in self._groups)


def _add_node(found: dict[str, set[str]], value: str | None, name: str) -> None:
    if value is not None:
        found.setdefault(value, set()).add(name)


def _remove(found: dict[str, set[str]], value: str | None, name: str) -> None:
    names = found.get(value) if value is not None else None
    if names is None or value is None:
        return
    names.discard(name)
    if not names:
        del found[value]
