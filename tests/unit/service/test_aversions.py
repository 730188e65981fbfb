"""Anti-affinity of pods that run keeps others away, and costs a look at them a bounded amount."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

import msgspec
import pytest

from scheduler.core.labels import packed
from scheduler.core.pod_affinity import PodTerm
from scheduler.kube.demands import apart_of
from scheduler.kube.wire import Pod
from scheduler.nodes.aversions import MOST_OF_ANOTHER, MOST_OF_OTHERS, MOST_OWN, Aversions
from tests.support.costs import calls
from tests.unit.service.test_requirements import ZONE, needs, pod
from tests.unit.service.tiny_service import Service

# Thousands of Nodes and pods take seconds of CPU, and more where the cores have other work.
pytestmark = [pytest.mark.looptime, pytest.mark.timeout(300)]

Spec = dict[str, Any]
HOST: Final = "kubernetes.io/hostname"
EVERYWHERE: Spec = {"namespaceSelector": {}}


@pytest.fixture(autouse=True)
async def zones(kube):
    kube.set_node("n1", labels={ZONE: "a", HOST: "n1"})
    kube.set_node("n2", labels={ZONE: "b", HOST: "n2"})


def within(namespace: str, found: Pod, **labels: str) -> Pod:
    """The same pod in another namespace, with further labels."""
    meta = found.metadata
    changed = msgspec.structs.replace(meta, namespace=namespace, labels=meta.labels | labels)
    return msgspec.structs.replace(found, metadata=changed)


def lacking(label: str) -> Spec:
    """Means all pods that lack the label, so nearly all."""
    return {"labelSelector": {"matchExpressions": [{"key": label, "operator": "DoesNotExist"}]}}


def having(*keys: str, **labels: str) -> Spec:
    expressions = [{"key": it, "operator": "Exists"} for it in keys]
    return {"labelSelector": {"matchLabels": labels, "matchExpressions": expressions}}


def add(service: Service, name: str, namespace: str, node: str = "n1", **term: Any) -> None:
    """A pod that runs and does not want near it what the term means."""
    found = pod(name, node=node, **needs("podAntiAffinity", **term))
    service.kube.add_neighbour(within(namespace, found))


def look(service: Service, found: Pod, node: str = "n1") -> str:
    """What a look at a pod asks, and what keeps the pod from the Node."""
    service.fit.waits_since(found, holds_nodes=True)
    service.fit.survey(found)
    why = service.fit.unfit(found, node)
    return "" if why is None else why.why


def cost(service: Service, found: Pod) -> int:
    """Calls of functions in a look, once terms have changed."""
    add(service, "new", "elsewhere", **having(app="nobody"))
    with calls() as made:
        look(service, found)
    service.kube.remove_neighbour("new")
    return made[0]


@pytest.mark.parametrize("hostile", [1, 10])
@pytest.mark.parametrize(
    "term",
    [lambda number: lacking(f"k-{number}"), lambda number: having(f"k-{number}", app="web")],
    ids=["without a label that is required", "with labels that many have"],
)
async def test_look_costs_little_more_whatever_pods_of_other_namespaces_say(service, hostile, term):
    found = pod("uid-1", app="web")
    quiet = cost(service, found)
    for number in range(3000):
        namespace = f"hostile-{number % hostile}"
        far = f"far-{number % 100}"
        add(service, f"h-{number}", namespace, far, **EVERYWHERE, **term(number // hostile))
    # One call or two for each item; without a bound it would be 3000 terms, and three times.
    assert cost(service, found) - quiet <= 2 * MOST_OF_OTHERS


async def test_look_at_a_pod_of_the_hostile_namespace_has_a_bound_too(service):
    found = pod("uid-1", app="web")
    quiet = cost(service, found)
    for number in range(3000):
        add(service, f"h-{number}", "ns", f"far-{number % 100}", **lacking(f"k-{number}"))
    assert cost(service, found) - quiet <= 2 * MOST_OWN


async def test_long_selectors_cost_as_much_as_they_are_long(service):
    """The longest that are kept of pods that run have 256 words."""
    around = service.fit.around
    for number in range(50):
        values = [f"v-{number}-{it}" for it in range(250)]
        selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}
        add(service, f"h-{number}", f"hostile-{number % 10}", **EVERYWHERE, labelSelector=selector)
    look(service, pod("uid-1", app="web"))
    assert 0 < around.aversions.compared <= MOST_OF_OTHERS + 256


async def test_all_terms_of_a_large_namespace_keep_its_pods_away_and_are_no_burden(service):
    """Deployments without number, each of which wants its pods apart."""
    for number in range(3000):
        add(service, f"d-{number}", "ns", **having(app=f"app-{number}"))
    around = service.fit.around
    for number in (0, 1500, 2999):
        before = around.aversions.compared
        assert "own required podAntiAffinity" in look(service, pod("uid", app=f"app-{number}"))
        assert around.aversions.compared - before <= 10
        assert look(service, pod("uid", app=f"app-{number}"), "n2") == ""


async def test_terms_are_told_apart_by_the_label_that_few_have(service):
    """A thousand databases have one name, and each an instance of its own."""
    for number in range(1000):
        add(service, f"d-{number}", "ns", **having(app="db", instance=f"db-{number}"))
    around = service.fit.around
    for number in (0, 500, 999):
        before = around.aversions.compared
        found = within("ns", pod("uid", app="db"), instance=f"db-{number}")
        assert "own required podAntiAffinity" in look(service, found)
        assert around.aversions.compared - before <= MOST_OWN / 4


async def test_pods_of_one_namespace_take_nobody_elses_terms_their_effect(service):
    for number in range(3000):
        add(
            service, f"h-{number}", f"hostile-{number % 10}", **EVERYWHERE, **lacking(f"k-{number}")
        )
    add(service, "fragile", "honest", node="n2", **EVERYWHERE, **having(noisy="yes"))
    add(service, "lonely", "honest", node="n2", **EVERYWHERE, **lacking("quiet"))
    for found in (
        within("ns", pod("uid-1"), noisy="yes", quiet="yes"),
        pod("uid-2"),
    ):
        assert "own required podAntiAffinity" in look(service, found, "n2")


async def test_of_one_namespaces_terms_about_others_the_oldest_count(service):
    terms = MOST_OF_ANOTHER // 4
    for number in range(2 * terms):
        host = f"n{1 + number // terms}"
        add(
            service,
            f"h-{number}",
            "hostile",
            host,
            key=HOST,
            **EVERYWHERE,
            **lacking(f"k-{number}"),
        )
    assert "own required podAntiAffinity" in look(service, pod("uid-1"), "n1")
    assert look(service, pod("uid-1"), "n2") == ""
    for number in range(terms):
        service.kube.remove_neighbour(f"h-{number}")
    assert "own required podAntiAffinity" in look(service, pod("uid-1"), "n2")


async def test_terms_are_as_old_as_the_pods_that_have_them(service):
    """A pod's status changes all the time."""
    for number in range(MOST_OF_ANOTHER):
        host = f"n{1 + number // (MOST_OF_ANOTHER // 4)}"
        add(
            service,
            f"h-{number}",
            "hostile",
            host,
            key=HOST,
            **EVERYWHERE,
            **lacking(f"k-{number}"),
        )
    for number in range(MOST_OF_ANOTHER // 4):
        add(
            service,
            f"h-{number}",
            "hostile",
            "n1",
            key=HOST,
            **EVERYWHERE,
            **lacking(f"k-{number}"),
        )
    assert len(service.fit.around.load("n1").pods) == MOST_OF_ANOTHER // 4
    assert "own required podAntiAffinity" in look(service, pod("uid-1"), "n1")
    assert look(service, pod("uid-1"), "n2") == ""


async def test_node_is_near_by_the_labels_that_it_has_now(service, kube):
    add(service, "web-1", "ns", **having(app="train"))
    assert look(service, pod("uid-1"), "n2") == ""
    kube.set_node("n2", labels={ZONE: "a"})
    await asyncio.sleep(0)
    assert "own required podAntiAffinity" in look(service, pod("uid-1"), "n2")
    kube.set_node("n1", labels={ZONE: "c"})
    await asyncio.sleep(0)
    assert look(service, pod("uid-1"), "n2") == ""
    kube.set_node("n3", labels={ZONE: "c"})
    await asyncio.sleep(0)
    assert "own required podAntiAffinity" in look(service, pod("uid-1"), "n3")


def _random_term(rng: Random) -> PodTerm:
    selectors = (having(app=rng.choice("ab")), having(app="a", tier=rng.choice("xy")), lacking("t"))
    reach = rng.choice(({}, EVERYWHERE, {"namespaces": rng.sample(("ns", "other"), 2)}))
    key = rng.choice((ZONE, HOST))
    (term,) = apart_of(
        pod("any", **needs("podAntiAffinity", key, **rng.choice(selectors), **reach))
    )
    return term


@pytest.mark.parametrize("seed", range(20))
def test_terms_that_come_and_go_mean_the_pods_that_each_of_them_means(seed: int) -> None:
    """So few that all of them are counted."""
    rng, aversions = Random(seed), Aversions()
    there: list[tuple[str, tuple[PodTerm, ...], str]] = []
    for _ in range(200):
        if len(there) > rng.randint(0, 5):
            gone = there.pop(rng.randrange(len(there)))
            aversions.change_count(*gone, -1)
        else:
            terms = tuple(_random_term(rng) for _ in range(rng.randint(0, 2)))
            come = rng.choice(("ns", "other")), terms, rng.choice(("n1", "n2"))
            there.append(come)
            aversions.change_count(*come, 1)
        namespace = rng.choice(("ns", "other", "third"))
        labels = packed({"app": rng.choice("ab"), "tier": rng.choice("xy")})
        expected = {
            (term.topology_key, node)
            for _, terms, node in there
            for term in terms
            if term.matches(namespace, labels)
        }
        found = aversions.repelling(namespace, labels)
        assert {
            (key, it) for key, groups in found.items() for it in set().union(*groups)
        } == expected


async def test_pods_keep_nobody_away_if_other_pods_may_not_be_read(service, kube):
    """Nothing is checked then, so what is known of our own pods counts for nothing either."""
    service.fit.do_without()
    everyone = {"labelSelector": {}, **EVERYWHERE}
    hostile = pod("hostile", node="n1", **needs("podAntiAffinity", **everyone))
    kube._put(hostile)
    service.start()
    await asyncio.sleep(1)
    kube.create("uid-1")
    await asyncio.sleep(5)
    assert service.slurm.submissions[max(service.slurm.jobs)].excluded_nodes == ()
