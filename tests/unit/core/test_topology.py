"""Which Nodes share a label's value, while Nodes come, go and change."""

from __future__ import annotations

from random import Random

import pytest

from scheduler.core.node_suitability import NodeFacts
from scheduler.core.topology import Near, Topology

KEYS = ("zone", "rack")


def node(rng: Random, name: str) -> NodeFacts:
    labels = {key: rng.choice("abc") for key in KEYS if rng.random() < 0.7}
    return NodeFacts(name=name, labels=labels)


@pytest.mark.parametrize("seed", range(20))
def test_index_says_what_the_nodes_say(seed: int) -> None:
    rng, nodes = Random(seed), dict[str, NodeFacts]()
    topology = Topology(nodes.values)
    for _ in range(100):
        name = f"n{rng.randrange(6)}"
        former = nodes.pop(name, None)
        new = node(rng, name) if rng.random() < 0.7 else None
        if new is not None:
            nodes[name] = new
        topology.changed(former, new)
        key, value = rng.choice(KEYS), rng.choice("abc")
        found = {it.name for it in nodes.values() if it.labels.get(key) == value}
        assert topology.sharing(key, value) == found
        some = {f"n{it}" for it in range(6) if rng.random() < 0.3}
        labelled = {it.name for it in nodes.values() if key in it.labels}
        assert topology.holds_any(key, some) is bool(some & labelled)


def test_node_is_near_by_its_value_and_never_without_the_label() -> None:
    facts = {
        name: NodeFacts(name=name, labels=labels)
        for name, labels in {
            "n1": {"zone": "a"},
            "n2": {"zone": "a"},
            "n3": {"zone": "b"},
            "n4": dict[str, str](),
            "n5": dict[str, str](),
        }.items()
    }
    near = Near("zone", ({"n1"}, {"n4", "gone"}), Topology(facts.values))
    assert [it.name for it in facts.values() if near.holds(it)] == ["n1", "n2"]
    assert near.anywhere()
    assert not Near("zone", ({"n4", "gone"},), Topology(facts.values)).anywhere()
