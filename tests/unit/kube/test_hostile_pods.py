"""What it costs to read the largest pods that an API server stores, whatever their scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from annotations import Rules
from scheduler.core.comparison_cost import MOST_WORDS_READ
from scheduler.kube.demands import MOST_REQUESTS_READ
from scheduler.kube.neighbours import MOST_AMOUNTS, MOST_PORTS, NEIGHBOURS, Neighbour
from scheduler.kube.slim import slim, slimmed
from scheduler.kube.wire import PODS, Added, Decode, pieces
from tests.support.costs import calls, measured

Body = dict[str, Any]

OWN: Final = slimmed(PODS, prefixes=Rules().prefixes)
each_kind = pytest.mark.parametrize("decode", [NEIGHBOURS, OWN], ids=["others", "own"])
# etcd accepts 1.5 MiB.
LARGEST_BYTES: Final = 1_400_000
# Calls of Python functions, of which a thousand take less than a millisecond. Without bounds some
# of these pods need half a million.
MOST_CALLS: Final = 15_000


def many(item: Callable[[int], object]) -> list[Any]:
    """So many items that the pod is as large as may be."""
    size = len(json.dumps(item(10_000), separators=(",", ":"))) + 1
    return [item(number) for number in range(LARGEST_BYTES // size)]


def names(prefix: str) -> dict[str, str]:
    return dict(many(lambda n: (f"{prefix}{n:05}", str(n))))


def apart(*terms: Body) -> Body:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return {"affinity": {"podAntiAffinity": required}}


def selected(*expressions: Body) -> Body:
    return {"topologyKey": "a", "labelSelector": {"matchExpressions": expressions}}


def container(number: int = 0, /, **requests: str) -> Body:
    return {"name": f"c{number}", "image": "i", "resources": {"requests": requests}}


HOSTILE: Final[dict[str, Callable[[], Body]]] = {
    "terms": lambda: apart(*many(lambda _: {"topologyKey": "a", "labelSelector": {}})),
    "namespaces": lambda: apart({"topologyKey": "a", "namespaces": many(lambda _: "a")}),
    "expressions": lambda: apart(selected(*many(lambda _: {"key": "a", "operator": "Exists"}))),
    "values": lambda: apart(selected({"operator": "NotIn", "values": many(lambda _: "a")})),
    "node terms": lambda: {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": many(lambda _: {})
                }
            }
        }
    },
    "ports": lambda: {
        "containers": [{**container(), "ports": many(lambda n: {"hostPort": n, "protocol": "TCP"})}]
    },
    "containers": lambda: {"containers": many(container)},
    "requests": lambda: {"containers": many(lambda n: container(n, cpu=f"{n}m", memory=str(n)))},
    "init containers": lambda: {"initContainers": many(lambda n: container(n, cpu=f"{n}m"))},
    "resources": lambda: {"containers": [container(**names("a.b/"))]},
    "tolerations": lambda: {"tolerations": many(lambda _: {"operator": "Exists"})},
    "volumes": lambda: {"volumes": many(lambda n: {"name": f"v{n}", "emptyDir": {}})},
}


def line(spec: Body, **metadata: Any) -> bytes:
    """An event about a pod on a Node."""
    meta = {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "7"} | metadata
    whole = {"nodeName": "n1", "schedulerName": "other", "containers": [container()]} | spec
    pod = {"metadata": meta, "spec": whole, "status": {"phase": "Running"}}
    return json.dumps({"type": "ADDED", "object": pod}, separators=(",", ":")).encode()


def neighbour(spec: Body) -> Neighbour:
    event = NEIGHBOURS.event(line(spec))
    assert isinstance(event, Added)
    return event.object


@each_kind
@pytest.mark.parametrize("shape", HOSTILE)
def test_largest_pod_costs_a_bounded_number_of_steps(decode: Decode[Any], shape: str) -> None:
    data = line(HOSTILE[shape]())
    assert len(data) > LARGEST_BYTES * 0.9
    with calls() as made:
        decode.event(data)
    assert made[0] < MOST_CALLS


@each_kind
def test_labels_of_the_largest_pod_cost_a_bounded_number_of_steps(decode: Decode[Any]) -> None:
    data = line({}, labels=names("k"))
    with calls() as made:
        decode.event(data)
    assert made[0] < MOST_CALLS


@pytest.mark.parametrize("shape", ["node terms", "tolerations", "volumes"])
def test_what_is_not_used_of_a_pod_of_others_is_not_decoded(shape: str) -> None:
    data = line(HOSTILE[shape]())
    with measured() as cost:
        NEIGHBOURS.event(data)
    assert cost.peak_bytes < len(data) / 10


def test_node_terms_are_not_written_as_json_to_find_that_they_are_too_many() -> None:
    pod = json.loads(line(HOSTILE["node terms"]()))["object"]
    data = json.dumps(pod).encode()
    read = PODS.item(data)
    with measured() as cost:
        large = slim(read, Rules().prefixes).oversize
    assert large is not None
    assert large.size.endswith(" terms")
    assert cost.peak_bytes < len(data) / 10


@each_kind
@pytest.mark.parametrize("shape", ["terms", "requests"])
def test_page_of_the_largest_pods_takes_the_memory_of_one(decode: Decode[Any], shape: str) -> None:
    pod = json.loads(line(HOSTILE[shape]()))["object"]
    peaks = []
    for count in (1, 6):
        page = {"metadata": {"resourceVersion": "9"}, "items": [pod] * count}
        data = json.dumps(page).encode()
        with measured() as cost:
            kept = [decode.item(piece) for piece in pieces(data).items or ()]
        assert len(kept) == count
        peaks.append(cost.peak_bytes)
    assert peaks[1] < 1.5 * peaks[0]


def test_of_thousands_of_containers_the_first_are_counted() -> None:
    spec = {"containers": [container(n, cpu="1") for n in range(4 * MOST_REQUESTS_READ)]}
    assert dict(neighbour(spec).shape.requests) == {"cpu": 1000 * MOST_REQUESTS_READ // 2}


def test_of_thousands_of_resources_those_of_every_node_are_counted() -> None:
    given = names("a.b/") | {"memory": "1Gi", "cpu": "4"}
    found = neighbour({"containers": [container(**given)]}).shape.requests
    assert len(found) == MOST_AMOUNTS
    assert dict(found)["cpu"] == 4000
    assert dict(found)["memory"] == 2**30


def test_of_thousands_of_host_ports_the_first_are_counted() -> None:
    found = neighbour(HOSTILE["ports"]()).shape.ports
    assert [it.port for it in found] == list(range(1, MOST_PORTS + 1))


@pytest.mark.parametrize(
    "term",
    [
        lambda words: {"namespaces": ["a"] * words},
        lambda words: {
            "namespaceSelector": {"matchLabels": {"a": "b"}},
            "namespaces": ["a"] * (words - 2),
        },
        lambda words: {"labelSelector": {"matchExpressions": [{"key": "a"}] * (words - 1)}},
        lambda words: {"labelSelector": {"matchExpressions": [{"values": ["a"] * (words - 2)}]}},
        lambda words: {
            "labelSelector": {"matchLabels": {f"k{n}": "v" for n in range(words // 2 - 1)}},
            "namespaces": ["a"] * (2 + words % 2),
        },
    ],
    ids=["namespaces", "selector of namespaces", "expressions", "values", "labels"],
)
def test_term_with_too_many_words_is_left_out(term: Callable[[int], Body]) -> None:
    fits, does_not = ({"topologyKey": "z"} | term(MOST_WORDS_READ + more) for more in (0, 1))
    (kept,) = neighbour(apart(does_not, fits)).shape.apart
    assert kept.words == MOST_WORDS_READ
