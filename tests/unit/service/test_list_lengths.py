"""What is read again at each look at a pod is bounded: a longer spec is refused in words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.core.comparison_cost import MOST_TERMS_READ, MOST_WORDS_READ
from scheduler.core.node_requests import ContainerRequests, requested
from scheduler.facts.list_lengths import (
    MOST_AMOUNTS,
    MOST_CONTAINERS,
    MOST_HOST_PORTS,
    MOST_LABELS,
    MOST_NODE_EXPRESSIONS,
    MOST_NODE_TERMS,
    MOST_NODE_WORDS,
    MOST_TOLERATIONS,
    MOST_VOLUMES,
    excess,
)
from scheduler.kube.neighbours import MOST_PORTS, neighbour
from tests.support.costs import cpu_seconds
from tests.unit.service.test_requirements import WEB, ZONE, pod, served

pytestmark = pytest.mark.looptime
Spec = dict[str, Any]
RESOURCES: Spec = {"requests": {"cpu": "1", "memory": "1Gi"}}


def containers(count: int) -> Spec:
    return {"containers": [{"name": f"c{it}", "resources": RESOURCES} for it in range(count)]}


def amounts(count: int) -> Spec:
    many = {f"example.org/r{it}": "1" for it in range(count - 2)}
    return {"container": {"resources": {"requests": RESOURCES["requests"] | many}}}


def ports(count: int) -> Spec:
    return {
        "container": {
            "resources": RESOURCES,
            "ports": [{"hostPort": 1 + it} for it in range(count)],
        }
    }


def volumes(count: int) -> Spec:
    return {"volumes": [{"name": f"v{it}"} for it in range(count)]}


def tolerations(count: int) -> Spec:
    return {"tolerations": [{"key": f"k{it}"} for it in range(count)]}


def labels(count: int) -> Spec:
    return {"nodeSelector": {f"k{it}": "v" for it in range(count)}}


def node_terms(count: int) -> Spec:
    term: Spec = {"matchExpressions": [{"key": ZONE, "operator": "Exists"}]}
    return _node_affinity([term] * count)


def node_expressions(count: int) -> Spec:
    expression: Spec = {"key": ZONE, "operator": "Exists"}
    return _node_affinity([{"matchExpressions": [expression] * count}])


def node_words(count: int) -> Spec:
    values = [f"v{it}" for it in range(count - 1)]
    expression: Spec = {"key": ZONE, "operator": "NotIn", "values": values}
    return _node_affinity([{"matchExpressions": [expression]}])


def _node_affinity(terms: list[Spec]) -> Spec:
    required = {"nodeSelectorTerms": terms}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"affinity": {"nodeAffinity": affinity}}


def near(count: int) -> Spec:
    return _pod_affinity("podAffinity", [_selector(str(it)) for it in range(count)])


def apart(count: int) -> Spec:
    return _pod_affinity("podAntiAffinity", [_selector(str(it)) for it in range(count)])


def apart_words(count: int) -> Spec:
    """One expression, the rest values; the namespace counts as well."""
    return _pod_affinity("podAntiAffinity", [_selector(*map(str, range(count - 2)))])


def spread(count: int) -> Spec:
    return _spread([_selector(str(it)) for it in range(count)])


def spread_words(count: int) -> Spec:
    return _spread([_selector(*map(str, range(count - 1)))])


def _selector(*values: str) -> Spec:
    return {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": values}]}


def _pod_affinity(kind: str, selectors: list[Spec]) -> Spec:
    terms = [{"topologyKey": ZONE, "labelSelector": it} for it in selectors]
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _spread(selectors: list[Spec]) -> Spec:
    hard = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [hard | {"labelSelector": it} for it in selectors]}


@pytest.mark.parametrize(
    ("spec", "most"),
    [
        (containers, MOST_CONTAINERS),
        (amounts, MOST_AMOUNTS),
        (ports, MOST_HOST_PORTS),
        (volumes, MOST_VOLUMES),
        (tolerations, MOST_TOLERATIONS),
        (labels, MOST_LABELS),
        (node_terms, MOST_NODE_TERMS),
        (node_expressions, MOST_NODE_EXPRESSIONS),
        (node_words, MOST_NODE_WORDS),
        (near, MOST_TERMS_READ),
        (apart, MOST_TERMS_READ),
        (apart_words, MOST_WORDS_READ),
        (spread, MOST_TERMS_READ),
        (spread_words, MOST_WORDS_READ),
    ],
)
async def test_longer_list_is_refused_in_words_before_it_is_read(service, kube, spec, most):
    for number in range(50):
        kube.add_neighbour(pod(f"web-{number}", node="n1", app="web"))
    assert excess(pod("fits", **spec(most))) is None
    message = await served(service, pod("uid-1", **spec(most + 1)))
    assert message.startswith("SchedulingFailed: spec."), message
    assert f"is '{most + 1} " in message
    assert f"expected at most {most}: " in message
    assert service.fit.around.counted == 0, "no pod was compared with it"
    assert service.slurm.jobs == {}


async def test_pod_that_is_shortened_behind_its_gate_is_served(service, kube):
    """The affinity of a pod with a scheduling gate can be edited."""
    gate: Spec = {"schedulingGates": [{"name": "example.org/later"}]}
    await served(service, pod("uid-1", **node_terms(MOST_NODE_TERMS + 1), **gate))
    kube._put(pod("uid-1"))
    await asyncio.sleep(5)
    assert "SlurmPending" in await served(service, pod("uid-1"))


def test_of_a_pod_that_runs_only_so_much_is_kept() -> None:
    """Each of its terms is compared with each pod that waits, and each of its ports."""
    assert (
        len(neighbour(pod("web", node="n1", **apart(MOST_TERMS_READ + 1))).shape.apart)
        == MOST_TERMS_READ
    )
    fits = neighbour(pod("web", node="n1", **apart_words(MOST_WORDS_READ)))
    assert len(fits.shape.apart) == 1
    assert neighbour(pod("web", node="n1", **apart_words(MOST_WORDS_READ + 1))).shape.apart == ()
    assert len(neighbour(pod("web", node="n1", **ports(MOST_PORTS + 1))).shape.ports) == MOST_PORTS
    assert neighbour(pod("web", node="n1", **_pod_affinity("podAntiAffinity", [WEB]))).shape.apart


def _spent(sidecars: int) -> float:
    found = [
        ContainerRequests({f"example.org/r{it}": "1"}, restartable=True) for it in range(sidecars)
    ]
    requested(found, found)
    with cpu_seconds() as spent:
        assert len(requested([], found)) == sidecars
    return spent[0]


def test_sidecars_cost_in_proportion_to_their_number() -> None:
    """Ten times as many took a hundred times as long; any pod on a Node is read."""
    assert min(_spent(2000) for _ in range(3)) < 40 * min(_spent(200) for _ in range(3))
