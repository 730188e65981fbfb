"""The rows of `nodes`: who holds what of a node, and why a pod would be refused there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest
from msgspec.structs import replace

from scheduler.core.node_suitability import Taint
from scheduler.doctor.facts import NodePods, Pair, PodsOnNodes, Unread
from scheduler.doctor.node_rows import Amount, NodeRow, node_as_object, rows
from scheduler.doctor.node_table import node_table
from scheduler.kube.wire import Node
from tests.unit.doctor.facts import kube_node, pair, slurm_node

GPU: Final = "nvidia.com/gpu"
MIB: Final = 2**20
NOBODY: Final = PodsOnNodes({}, {})


def on(name: str, pods: int = 1, **requests: int) -> PodsOnNodes:
    return PodsOnNodes({name: NodePods(pods, requests)}, {})


def row(
    of: Pair, *, ours: PodsOnNodes | Unread = NOBODY, others: PodsOnNodes | Unread = NOBODY
) -> NodeRow:
    (found,) = rows([of], ours=ours, others=others, resources={GPU: "gpu"})
    return found


def test_allocations_are_told_apart_by_who_holds_them() -> None:
    busy = pair(
        "a",
        states=frozenset({"MIXED", "PLANNED"}),
        allocated_cpus=30,
        allocated_memory_mib=500,
        gres_used="gpu:h100:3(IDX:0-2)",
    )
    found = row(busy, ours=on("a", cpu=9500, memory=100 * MIB, **{GPU: 2}))
    assert found.states == ("MIXED", "PLANNED")
    assert found.cpus == Amount(10, 20, 34, 64)
    assert found.memory_mib == Amount(100, 400, 1500, 2000)
    assert found.gpus == Amount(2, 1, 5, 8)
    assert (found.node, found.ready, found.refused) == ("a", "Ready", ())


def test_pods_that_hold_more_than_slurm_gives_are_no_negative_jobs() -> None:
    assert row(pair("a", allocated_cpus=2), ours=on("a", cpu=4000)).cpus == Amount(4, 0, 62, 64)


def test_what_slurm_reserves_for_the_system_is_not_free() -> None:
    reserved = {"job_cpus": 60, "specialized_memory_mib": 500, "allocated_cpus": 10}
    found = row(pair("a", kube_node("a", {"cpu": "60", "memory": "1500Mi"}), **reserved))
    assert (found.cpus, found.memory_mib.free) == (Amount(0, 10, 50, 64), 1500)
    assert found.refused == ()


def test_node_of_a_cloud_that_is_switched_on_is_not_refused() -> None:
    assert row(pair("a", states=frozenset({"IDLE", "CLOUD"}))).refused == ()
    off = row(pair("a", states=frozenset({"IDLE", "CLOUD", "POWERED_DOWN"})))
    assert off.refused == ("Slurm: POWERED_DOWN",)


def tainted(effect: str, key: str = "team") -> Node:
    node = kube_node("a")
    taint = Taint(key=key, value="x", effect=effect)
    return replace(node, spec=replace(node.spec, taints=(taint,)))


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (pair("a"), []),
        (pair("a", states=frozenset({"IDLE", "DRAIN"})), ["Slurm: DRAIN"]),
        (pair("a", states=frozenset({"IDLE", "MAINTENANCE"})), ["Slurm: MAINTENANCE"]),
        (Pair(slurm_node("a"), "", "is not known"), ["no Node: is not known"]),
        (pair("a", kube_node("a", ready=False)), ["the Node is not ready"]),
        (pair("a", kube_node("a", cordoned=True)), ["the Node is cordoned"]),
        (
            pair("a", tainted("NoSchedule")),
            ["taint team=x:NoSchedule, unless the pod tolerates it"],
        ),
        (pair("a", tainted("PreferNoSchedule")), []),
        (pair("a", tainted("NoSchedule", "node.kubernetes.io/unschedulable")), []),
        (
            pair("a", kube_node("a", {"cpu": "60", GPU: "4"})),
            ["64 CPUs free in Slurm, 60 on the Node", "8 GPUs free in Slurm, 4 on the Node"],
        ),
        (Pair(slurm_node("a"), "a"), []),  # Nodes may not be read
    ],
)
def test_node_says_why_it_would_be_refused(of: Pair, why: list[str]) -> None:
    assert list(row(of).refused) == why


def test_pods_of_other_schedulers_leave_less_than_slurm_counts() -> None:
    found = row(pair("a"), others=on("a", pods=3, cpu=2500))
    expected = "64 CPUs free in Slurm, 61 on the Node, 3 pods of other schedulers are there"
    assert found.refused == (expected,)
    assert row(pair("a", allocated_cpus=3), others=on("a", cpu=2500)).refused == ()


def test_pods_that_may_not_be_read_are_not_counted() -> None:
    denied = Unread("no right", "denied")
    assert row(pair("a"), ours=denied, others=denied).cpus == Amount(0, 0, 64, 64)


@pytest.mark.parametrize("changes", [{}, {"states": frozenset({"DOWN"})}])
def test_table_and_object_have_the_same(changes: Mapping[str, Any]) -> None:
    found = row(pair("a", allocated_cpus=4, **changes), ours=on("a", cpu=4000))
    heading, line = node_table([found]).splitlines()
    assert heading.split()[:4] == ["NAME", "SLURM", "NODE", "KUBERNETES"]
    assert "4/0/60/64" in line.split()
    body = node_as_object(found)
    assert body["cpus"] == {"pods": 4, "jobs": 0, "free": 60, "total": 64}
    assert (line.split()[-1] == "-") is (body["refused"] == [])
