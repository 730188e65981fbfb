"""Whether any Node can take a pod, and when that is looked into anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from scheduler.core.mapping_strategies import Strategy
from scheduler.core.node_suitability import (
    NodeFacts,
    Place,
    Requirement,
    Taint,
    Term,
    Toleration,
    Wishes,
    unsuitable,
)
from scheduler.kube.store import Store
from scheduler.kube.wire import Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta
from scheduler.nodes import candidates
from scheduler.nodes.candidates import MOST_EXCLUDED, Nodes, Survey
from scheduler.nodes.node_map import NodeMap
from scheduler.nodes.records import SlurmNodes
from slurmapi import SlurmClient, SlurmNode
from tests.support.costs import calls

READY = NodeStatus(conditions=(NodeCondition("Ready", "True"),))
ZONE_A = Wishes((("zone", "a"),))


def node(name: str, *taints: Taint, version: str = "1", **labels: str) -> Node:
    meta = ObjectMeta(name=name, uid=f"uid-{name}", labels=labels, resource_version=version)
    return Node(meta, NodeSpec(taints=taints), READY)


def surveyed(nodes: Nodes, wishes: Wishes) -> Survey:
    """All steps of a survey at once."""

    def complain(found: NodeFacts) -> str:
        return str(unsuitable(wishes, found) or "")

    steps = nodes.surveying(complain, items=1)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("Survey", end.value)


def nowhere(world: World, wishes: Wishes) -> str:
    return surveyed(world.nodes, wishes).nowhere


def ruled_out(world: World, wishes: Wishes) -> Mapping[str, str]:
    return surveyed(world.nodes, wishes).ruled_out


class Slurm:
    """The client, as far as nodes go."""

    def __init__(self) -> None:
        self.items: dict[str, SlurmNode] = {}
        self.asked: list[str] = []

    async def nodes(self) -> tuple[SlurmNode, ...]:
        self.asked.append("*")
        return tuple(self.items.values())

    async def node(self, name: str) -> SlurmNode | None:
        self.asked.append(name)
        return self.items.get(name)


class World:
    """Nodes, Slurm's nodes, and a clock."""

    def __init__(self, *mapping: str, read: bool = True, **more: Any) -> None:
        self.now = 0.0
        self.changes = 0
        self.slurm = Slurm()
        self.store = Store[Node]()
        self.records = SlurmNodes(
            cast("SlurmClient", self.slurm), clock=lambda: self.now, on_change=self._changed
        )
        store = self.store if read else None
        strategies = tuple(map(Strategy.parse, mapping or ("name",)))
        self.map = NodeMap(strategies, slurm=self.records, nodes=store, **more)
        self.nodes = Nodes(store, nodemap=self.map, slurm=self.records, on_change=self._count)

    def put(self, *items: Node) -> None:
        for item in items:
            for change in self.store.apply(item):
                self.nodes.node_changed(change.old, change.new)

    async def list(self, *nodes: SlurmNode) -> None:
        """Slurm has these nodes, and they are listed."""
        self.slurm.items = {node.name: node for node in nodes}
        await self.records._list(again=True)

    def target(self, node: str) -> str | None:
        behind = self.map.behind(node)
        return None if behind is None else behind.target

    def _changed(self) -> None:
        self.nodes.mapping_changed()

    def _count(self) -> None:
        self.changes += 1


def slurm_node(name: str, *states: str, **more: str) -> SlurmNode:
    fields: dict[str, Any] = dict(more)
    return SlurmNode(name=name, states=frozenset(states or ("IDLE",)), **fields)


@pytest.fixture
async def world() -> World:
    """Slurm has told its nodes, more than there are Nodes."""
    world = World()
    await world.list(*map(slurm_node, ("n1", "n2", "n3", "n4")))
    return world


def test_pod_without_wishes_fits(world):
    world.put(node("n1"))
    assert nowhere(world, Wishes()) == ""
    assert world.nodes.place("n1", Wishes()) == Place("n1")


def test_without_any_node_nothing_is_said(world):
    assert nowhere(world, ZONE_A) == ""


def test_every_reason_is_counted_and_the_most_frequent_told_first(world):
    wishes = Wishes(terms=(Term((Requirement("gpu", "Exists"),)),))
    tainted = Taint("locked", "NoSchedule")
    world.put(node("n1", tainted, gpu="yes"), node("n2"), node("n3"))
    assert nowhere(world, wishes) == (
        "None of the 3 Kubernetes Nodes can take the pod: "
        "2 does not match the pod's required node affinity (gpu Exists); "
        "1 has the taint locked:NoSchedule, which the pod does not tolerate"
    )


def test_node_behind_no_slurm_node_is_of_no_use(world):
    world.put(node("n1"), node("control-plane", zone="a"))
    assert "None of the 1 Kubernetes Nodes" in nowhere(world, ZONE_A)


async def test_without_any_node_behind_slurms_nothing_is_said_either(world):
    world.put(node("control-plane"))
    assert nowhere(world, ZONE_A) == ""


async def test_node_behind_several_slurm_nodes_is_counted_once():
    world = World("comment")
    world.put(node("k1"))
    await world.list(slurm_node("s1", comment="k1"), slurm_node("s2", comment="k1"))
    assert "None of the 1 Kubernetes Nodes" in nowhere(world, ZONE_A)


def test_nothing_is_ruled_out_before_slurm_has_told_its_nodes():
    world = World()
    world.put(node("n1"))
    assert nowhere(world, ZONE_A) == ""


def test_node_that_will_be_ready_again_counts(world):
    world.put(Node(ObjectMeta(name="n1", uid="1", labels={"zone": "a"})))
    assert nowhere(world, ZONE_A) == ""


def test_change_that_matters_is_noticed_and_a_heartbeat_is_not(world):
    world.put(node("n1"), node("n2"))
    assert "2 has no label zone" in nowhere(world, ZONE_A)
    before = world.changes
    world.put(node("n1", version="2"))
    assert world.changes == before
    world.put(node("n1", version="3", zone="a"))
    assert world.changes == before + 1
    assert nowhere(world, ZONE_A) == ""


def test_toleration_opens_a_tainted_node(world):
    world.put(node("n1", Taint("gpu", "NoSchedule")))
    assert nowhere(world, Wishes())
    assert nowhere(world, Wishes(tolerations=(Toleration("gpu", "Exists"),))) == ""


async def test_node_that_slurm_may_switch_on_may_have_any_labels(world):
    world.put(node("n1"))
    await world.list(slurm_node("n1"), slurm_node("cloud-1", "IDLE", "POWERED_DOWN"))
    assert nowhere(world, ZONE_A) == ""
    await world.list(slurm_node("n1"), slurm_node("cloud-1", "IDLE"))
    assert nowhere(world, ZONE_A)


async def test_slurm_nodes_whose_nodes_can_never_serve_the_pod_are_known_beforehand():
    world = World("comment")
    world.put(node("k1"), node("k2", zone="a"))
    assert ruled_out(world, ZONE_A) == {}
    await world.list(
        slurm_node("s1", comment="k1"), slurm_node("s2", comment="k2"), slurm_node("s3")
    )
    why = "Kubernetes Node k1 has no label zone, and the pod's nodeSelector wants zone=a"
    assert ruled_out(world, ZONE_A) == {"s1": why}
    world.put(node("k1", version="2", zone="a"))
    assert ruled_out(world, ZONE_A) == {}


async def test_more_nodes_than_slurm_should_remember_with_a_job_are_not_named(world):
    names = [f"n{number}" for number in range(MOST_EXCLUDED + 1)]
    world.put(*map(node, names))
    await world.list(*map(slurm_node, names))
    assert ruled_out(world, ZONE_A) == {}
    world.put(node("n0", version="2", zone="a"))
    assert len(ruled_out(world, ZONE_A)) == MOST_EXCLUDED


def test_nothing_is_checked_where_nodes_cannot_be_read():
    world = World(read=False)
    assert world.nodes.place("n1", ZONE_A) == Place("n1")
    assert nowhere(world, ZONE_A) == ""
    assert ruled_out(world, ZONE_A) == {}


async def test_node_that_is_deleted_stays_the_one_that_was_behind() -> None:
    """Containers may still run there, and the guard asks for them by that name."""
    world = World("comment")
    world.put(node("k1"), node("k2"))
    await world.list(SlurmNode(name="s1", states=frozenset({"IDLE"}), comment="k1"))
    assert world.nodes.place("s1", Wishes()) == Place("k1")
    for change in world.store.remove("uid-k1"):
        world.nodes.node_changed(change.old, change.new)
    assert world.nodes.kube_node("s1") == "k1"
    await world.list(SlurmNode(name="s1", states=frozenset({"IDLE"}), comment="k2"))
    assert world.nodes.kube_node("s1") == "k2"


def _cost_of_a_change(count: int) -> int:
    world = World()
    world.put(*(node(f"k{number}", zone="a") for number in range(count)))
    assert len(world.nodes.all_facts()) == count
    with calls() as made:
        world.put(node("k0", version="2", zone="b"))
        assert world.nodes.all_facts()["k0"].labels == {"zone": "b"}
    return made[0]


def test_change_of_a_node_reads_no_other_node() -> None:
    assert _cost_of_a_change(500) == _cost_of_a_change(5)


def test_node_that_goes_in_another_state_than_it_had_leaves_nothing_behind() -> None:
    world = World()
    world.put(node("k1", zone="a"), node("k2", zone="a"))
    assert world.nodes.topology.sharing("zone", "a") == {"k1", "k2"}
    for change in world.store.remove("uid-k1", last=node("k1", version="2", zone="b")):
        world.nodes.node_changed(change.old, change.new)
    assert world.nodes.topology.sharing("zone", "a") == {"k2"}
    assert world.nodes.topology.sharing("zone", "b") == set()
    assert set(world.nodes.all_facts()) == {"k2"}


async def test_list_is_renewed_only_when_it_is_too_old() -> None:
    world = World()
    await world.records.renew(older_than=15)
    await world.records.renew(older_than=15)
    assert world.slurm.asked == ["*"]
    world.now += 15.1
    await asyncio.gather(*(world.records.renew(older_than=15) for _ in range(100)))
    assert world.slurm.asked == ["*", "*"]


async def test_former_nodes_are_forgotten_when_many_have_come_and_gone(world, monkeypatch):
    monkeypatch.setattr(candidates, "MOST_FORMER", 50)
    for number in range(200):
        world.put(node(f"c{number}"))
        await world.list(slurm_node(f"c{number}"))
        assert world.nodes.kube_node(f"c{number}") == f"c{number}"
        for gone in world.store.remove(f"uid-c{number}"):
            world.nodes.node_changed(gone.old, gone.new)
    assert len(world.nodes._former) == 50
