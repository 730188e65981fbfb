"""Whether any Node can take a pod, and when that is looked into anew."""

from __future__ import annotations

import pytest

from scheduler.core.fitness import Place, Requirement, Taint, Term, Toleration, Wishes
from scheduler.kube.store import Store
from scheduler.kube.wire import Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta
from scheduler.nodes import Nodes

READY = NodeStatus(conditions=(NodeCondition("Ready", "True"),))
ZONE_A = Wishes((("zone", "a"),))


def node(name: str, *taints: Taint, version: str = "1", **labels: str) -> Node:
    meta = ObjectMeta(name=name, uid=f"uid-{name}", labels=labels, resource_version=version)
    return Node(meta, NodeSpec(taints=taints), READY)


class Changes:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def nodes(changes: Changes) -> Nodes:
    return Nodes(Store[Node](), on_change=changes)


def put(nodes: Nodes, *items: Node) -> None:
    for item in items:
        for change in nodes._store.apply(item):
            nodes.changed(change.old, change.new)


def test_pod_without_wishes_fits(nodes):
    put(nodes, node("n1"))
    assert nodes.nowhere(Wishes()) == ""
    assert nodes.place("n1", Wishes()) == Place("n1")


def test_without_any_node_nothing_is_said(nodes):
    assert nodes.nowhere(ZONE_A) == ""


def test_every_reason_is_counted_and_the_most_frequent_told_first(nodes):
    wishes = Wishes(terms=(Term((Requirement("gpu", "Exists"),)),))
    tainted = Taint("locked", "NoSchedule")
    put(nodes, node("n1", tainted, gpu="yes"), node("n2"), node("n3"))
    assert nodes.nowhere(wishes) == (
        "None of the 3 Kubernetes Nodes can take the pod: "
        "2 does not match the pod's required node affinity (gpu Exists); "
        "1 has the taint locked:NoSchedule, which the pod does not tolerate"
    )


def test_node_that_will_be_ready_again_counts(nodes):
    put(nodes, Node(ObjectMeta(name="n1", uid="1", labels={"zone": "a"})))
    assert nodes.nowhere(ZONE_A) == ""


def test_change_that_matters_is_noticed_and_a_heartbeat_is_not(nodes, changes):
    put(nodes, node("n1"), node("n2"))
    assert "2 has no label zone" in nodes.nowhere(ZONE_A)
    before = changes.count
    put(nodes, node("n1", version="2"))
    assert changes.count == before
    put(nodes, node("n1", version="3", zone="a"))
    assert changes.count == before + 1
    assert nodes.nowhere(ZONE_A) == ""


def test_toleration_opens_a_tainted_node(nodes):
    put(nodes, node("n1", Taint("gpu", "NoSchedule")))
    assert nodes.nowhere(Wishes())
    assert nodes.nowhere(Wishes(tolerations=(Toleration("gpu", "Exists"),))) == ""
