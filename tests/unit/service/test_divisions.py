"""Nodes divided by spread constraints: kept true in steps, none of which is long."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from scheduler.core.comparison_cost import MOST_CONSTRAINTS
from scheduler.core.node_suitability import Requirement, Taint, Term, Wishes
from scheduler.core.spread import Constraint, Domains
from scheduler.kube.wire import Pod
from scheduler.nodes.divisions import Divisions
from tests.support.costs import calls, calls_by_step
from tests.unit.service.test_nodes import World, node
from tests.unit.service.test_requirements import pod
from tests.unit.service.tiny_service import Service

# Thousands of Nodes and pods take seconds of CPU, and more where the cores have other work.
pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]

KEYS: Final = ("zone", "rack")
CONSTRAINTS: Final = (
    Constraint(1, "zone", None),
    Constraint(1, "rack", None, by_affinity=False, by_taints=True),
)
WISHES: Final = Wishes(terms=(Term((Requirement("zone", "In", ("a", "b")),)),))


def change(rng: Random, world: World) -> None:
    """A Node comes, changes or goes."""
    name = f"k{rng.randrange(120)}"
    if rng.random() < 0.2:
        for gone in world.store.remove(f"uid-{name}"):
            world.nodes.node_changed(gone.old, gone.new)
        return
    labels = {key: rng.choice("abc") for key in KEYS if rng.random() < 0.9}
    taints = [Taint("dedicated", "NoSchedule")] if rng.random() < 0.3 else []
    world.put(node(name, *taints, **labels))


def told(domains: Domains) -> list[tuple[dict[str, str], set[str]]]:
    found = zip(domains.by_node, range(len(CONSTRAINTS)), strict=True)
    return [(by_node, set(domains.values(number))) for by_node, number in found]


@pytest.mark.parametrize("seed", range(5))
def test_nodes_that_change_at_any_time_are_divided_as_they_are(seed: int) -> None:
    rng, world = Random(seed), World()
    for _ in range(300):
        change(rng, world)
    divisions = Divisions(world.nodes)
    for _ in range(5):
        for _ in divisions.dividing(CONSTRAINTS, WISHES):
            if rng.random() < 0.7:
                change(rng, world)
        assert divisions.knows(CONSTRAINTS, WISHES)
        change(rng, world)
        anew = Divisions(world.nodes).of(CONSTRAINTS, WISHES)
        assert told(divisions.of(CONSTRAINTS, WISHES)) == told(anew)
        for _ in range(100):
            change(rng, world)


def largest() -> Pod:
    """As long as a pod's spec may be."""
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [f"{it}", "a", "b"]}]}
        for it in range(60)
    ]
    selector = {"matchExpressions": [{"key": "app", "operator": "Exists"}]}
    hard = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    found = [hard | {"topologyKey": f"k{it}"} for it in range(MOST_CONSTRAINTS)]
    required: dict[str, Any] = {"nodeSelectorTerms": terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod("uid-1", affinity=affinity, topologySpreadConstraints=found)


async def test_no_step_for_the_largest_template_goes_through_all_nodes(service: Service) -> None:
    labels = {f"k{it}": "v" for it in range(MOST_CONSTRAINTS)} | {"zone": "none"}
    for number in range(1000):
        service.kube.set_node(f"k{number}", labels=labels)
    await service.slurm_nodes._list()
    steps = calls_by_step(service.fit._survey_again(service.fit._demands(largest())))
    # 50 Nodes and 60 terms at a time, of 1000 Nodes; a term takes six calls, in two places.
    assert sum(steps) > 1000 * 60
    assert max(steps) < 50 * 60 * 6 * 3


async def test_check_before_a_bind_looks_at_the_nodes_that_have_changed(service: Service) -> None:
    labels = {f"k{it}": "v" for it in range(MOST_CONSTRAINTS)} | {"zone": "none"}
    for number in range(1000):
        service.kube.nodes.apply(node(f"k{number}", **labels))
    fit, found = service.fit, largest()
    fit.unfit(found, "k0")
    for change in service.kube.nodes.apply(node("k1", version="2", **labels, other="label")):
        service.nodes.node_changed(change.old, change.new)
    with calls() as made:
        fit.unfit(found, "k0")
    assert made[0] < 1000


def test_nodes_that_come_and_go_leave_nothing_in_a_division_that_nobody_asks_for() -> None:
    """An autoscaler gives each Node a name of its own."""
    world = World()
    divisions = Divisions(world.nodes)
    divisions.of(CONSTRAINTS, WISHES)
    (division,) = divisions._kept.values()
    for number in range(500):
        world.put(node(f"k{number}", zone="a", rack="b"))
        for gone in world.store.remove(f"uid-k{number}"):
            world.nodes.node_changed(gone.old, gone.new)
    assert not division.stale
    assert told(division.domains) == [({}, set())] * len(CONSTRAINTS)
