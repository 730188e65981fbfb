"""Templates that are compared with all pods and Nodes: in slices, and within a budget."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from scheduler.core.comparison_cost import MOST_CONSTRAINTS, MOST_TERMS, MOST_TEXTS
from scheduler.kube.wire import Pod
from scheduler.nodes.neighbourhood import MOST_CROWDS, MOST_TEXTS_COUNTED
from scheduler.nodes.surveyor import MOST_WAITING, PAUSE_SECONDS, SLICE_ITEMS, Surveyor
from tests.unit.service.test_requirements import PORT, ZONE, needs, pod, served
from tests.unit.service.tiny_service import Service

# Thousands of Nodes and pods take seconds of CPU, and more where the cores have other work.
pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]

MANY = 6000
# `app=web` in one namespace: the term, the label and the namespace.
TEXTS_EACH = 3
LARGEST_STEP = 128 * MOST_TEXTS


@pytest.fixture
async def crowded(service: Service) -> Service:
    """So many pods that no new template can be compared with them in one slice."""
    service.kube.set_node("n1", labels={ZONE: "a"})
    service.kube.set_node("n2", labels={ZONE: "b"})
    for number in range(MANY):
        service.kube.add_neighbour(pod(f"web-{number}", node="n1", app="web"))
    return service


def template(number: int, namespace: str = "ns") -> Pod:
    """One that no other pod has."""
    labels: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": f"app-{number}"}}}
    found = pod(f"{namespace}-{number}", **needs("podAntiAffinity", **labels))
    return msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, namespace=namespace)
    )


async def test_no_turn_of_the_loop_compares_all_pods(crowded):
    around, most = crowded.fit.around, 0
    crowded.kube._put(pod("uid-1", **needs("podAntiAffinity")))
    crowded.start()
    for _ in range(500):
        before = around.counted
        await asyncio.sleep(PAUSE_SECONDS / 2)
        most = max(most, around.counted - before)
    assert around.counted == MANY
    assert most <= SLICE_ITEMS / TEXTS_EACH + 128
    assert crowded.fit.surveyor.largest <= SLICE_ITEMS + LARGEST_STEP
    assert crowded.slurm.submissions[1].excluded_nodes == ("n1",)
    crowded.unharmed()


async def test_bind_is_checked_though_its_crowd_is_not_counted_any_more(crowded):
    around = crowded.fit.around
    await served(crowded, pod("uid-1", **needs("podAntiAffinity")))
    around._crowds.clear()
    around._texts = 0
    crowded.slurm.start(1, node="n1")
    await asyncio.sleep(10)
    assert crowded.kube.bindings == []
    assert around.counted == 2 * MANY
    assert any(it.reason == "NodeUnavailable" for it in crowded.recorder.events)


async def test_templates_of_one_namespace_delay_those_of_others_by_one_turn(crowded):
    for number in range(3 * MOST_WAITING):
        crowded.kube._put(template(number))
    crowded.start()
    await asyncio.sleep(1)
    around, before = crowded.fit.around, crowded.fit.around.counted
    crowded.kube._put(template(1, "honest"))
    async with asyncio.timeout(60):
        while not any("honest-1" in it.name for it in crowded.slurm.submissions.values()):
            await asyncio.sleep(PAUSE_SECONDS)
            assert around.counted - before <= 4 * MANY


async def test_pod_says_that_others_are_compared_first(crowded):
    for number in range(20 * MOST_WAITING):
        crowded.kube._put(template(number))
    message = await served(crowded, template(20 * MOST_WAITING))
    assert message.startswith("NodesNotCompared: It is not known yet which Nodes suit the pod")
    crowded.unharmed()


async def test_comparisons_of_all_tenants_together_have_a_budget(crowded):
    for number in range(20 * MOST_WAITING):
        crowded.kube._put(template(number, f"ns-{number % 7}"))
    crowded.start()
    around = crowded.fit.around
    await asyncio.sleep(5)
    before = around.counted
    await asyncio.sleep(10)
    slices = 10 / PAUSE_SECONDS
    assert 0 < around.counted - before <= slices * (SLICE_ITEMS / TEXTS_EACH + 128)


async def test_short_comparisons_at_once_have_the_same_budget():
    def steps(_key: str) -> Any:
        yield from ()

    surveyor = Surveyor(steps, on_ready=lambda _unit: None, clock=asyncio.get_running_loop().time)
    assert surveyor.try_spend(SLICE_ITEMS)
    assert not surveyor.try_spend(1)
    await asyncio.sleep(PAUSE_SECONDS / 2)
    assert not surveyor.try_spend(SLICE_ITEMS)
    assert surveyor.try_spend(SLICE_ITEMS // 2)


@pytest.mark.parametrize("templates", [1000, 200])
async def test_units_that_were_turned_away_are_called_when_there_is_room(templates: int) -> None:
    """They slept for five minutes, 128 at a time."""
    compared, served = set[int](), set[str]()

    def steps(key: int) -> Any:
        compared.add(key)
        yield 1

    def on_ready(unit: str) -> None:
        key = int(unit) % templates
        if key in compared:
            served.add(unit)
        else:
            surveyor.ask("ns", key, unit)

    clock = asyncio.get_running_loop().time
    surveyor = Surveyor(steps, on_ready=on_ready, clock=clock)
    turned_away = [surveyor.ask("ns", it % templates, str(it)) < 0 for it in range(1000)]
    assert sum(turned_away) >= 1000 - MOST_WAITING * 1000 / templates
    task = asyncio.create_task(surveyor.run())
    await asyncio.sleep(1000 * PAUSE_SECONDS * 1.5)
    assert len(served) == 1000
    task.cancel()


async def test_units_that_wait_for_one_comparison_are_called_in_several_turns() -> None:
    """20 000 of them took 260 ms in one turn of the loop."""
    loop, in_turn, most, called = asyncio.get_running_loop(), 0, 0, 0

    def next_turn() -> None:
        nonlocal in_turn
        in_turn = 0

    def on_ready(_unit: str) -> None:
        nonlocal in_turn, most, called
        if not in_turn:
            loop.call_soon(next_turn)
        in_turn, called = in_turn + 1, called + 1
        most = max(most, in_turn)

    surveyor = Surveyor[str](lambda _key: iter([1]), on_ready=on_ready, clock=loop.time)
    for number in range(5000):
        surveyor.ask("ns", "key", str(number))
    task = asyncio.create_task(surveyor.run())
    await asyncio.sleep(1)
    task.cancel()
    assert called == 5000
    assert most <= 1000


async def test_bind_needs_no_survey_of_all_nodes(service: Service) -> None:
    """A pod that waits for others' comparisons before its bind keeps its node idle."""
    port = pod("uid-1", **PORT)
    assert service.fit.surveyor.try_spend(SLICE_ITEMS)
    assert service.fit.waits_since(port, holds_nodes=False) is not None
    assert service.fit.waits_since(port, holds_nodes=True) is None
    assert service.fit.claim(port, "n1")


async def test_comparison_that_fails_stops_no_other():
    done: list[str] = []

    def steps(key: str) -> Any:
        yield 1
        if key == "bad":
            raise ValueError(key)

    surveyor = Surveyor(steps, on_ready=done.append, clock=asyncio.get_running_loop().time)
    surveyor.ask("ns", "bad", "uid-bad")
    surveyor.ask("ns", "good", "uid-good")
    task = asyncio.create_task(surveyor.run())
    await asyncio.sleep(1)
    assert done == ["uid-bad", "uid-good"]
    task.cancel()


def many_terms() -> dict[str, Any]:
    labels = [{"matchLabels": {"app": f"app-{number}"}} for number in range(MOST_TERMS + 1)]
    terms = [{"topologyKey": ZONE, "labelSelector": it} for it in labels]
    of_pods = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"podAntiAffinity": of_pods}}


def many_values() -> dict[str, Any]:
    values = [f"app-{number}" for number in range(MOST_TEXTS)]
    found = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
    return needs("podAffinity", labelSelector=found)


def many_constraints() -> dict[str, Any]:
    hard = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    keys = [f"example.org/level-{number}" for number in range(MOST_CONSTRAINTS + 1)]
    return {"topologySpreadConstraints": [hard | {"topologyKey": it} for it in keys]}


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (many_terms(), "9 terms and constraints"),
        (many_constraints(), "5 constraints"),
        (many_values(), "66 labels, values and"),
    ],
    ids=["terms", "constraints", "values"],
)
async def test_pod_that_is_too_costly_to_compare_is_refused_and_compared_with_none(
    crowded, spec, what
):
    message = await served(crowded, pod("uid-1", **spec))
    assert message.startswith("SchedulingFailed")
    assert f"is '{what}" in message
    assert "expected at most 8 required podAffinity" in message
    assert crowded.fit.around.counted == 0


async def test_event_of_a_pod_compares_a_bounded_number_of_texts(service):
    around = service.fit.around
    for number in range(MOST_CROWDS):
        values = [f"{number}-{it}" for it in range(MOST_TEXTS - 4)]
        found = {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}
        service.fit.unfit(pod(f"uid-{number}", **needs("podAffinity", labelSelector=found)), "n1")
    before = around.counted
    service.kube.add_neighbour(pod("web-1", node="n1", app="web"))
    assert 0 < (around.counted - before) * (MOST_TEXTS - 2) <= MOST_TEXTS_COUNTED


async def test_pods_that_come_and_go_while_they_are_counted_count_rightly(crowded):
    (crowd,) = crowds(crowded, pod("uid-1", **needs("podAntiAffinity")))
    around = crowded.fit.around
    counting = around.counting(crowd)
    for number, _ in enumerate(counting):
        crowded.kube.remove_neighbour(f"web-{MANY - 1 - number}")
        crowded.kube.remove_neighbour(f"web-{number}")
        crowded.kube.add_neighbour(pod(f"new-{number}", node="n2", app="web"))
    steps = number + 1
    assert around.count(crowd) == {"n1": MANY - 2 * steps, "n2": steps}


def crowds(service: Service, found: Pod) -> Any:
    demands = service.fit._demands(found)
    return demands.crowds
