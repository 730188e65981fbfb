"""Limits the lists in a pod's spec, because each pass over the pod reads them again.

The API server accepts 1.5 MB of any of these lists. Measured before there were limits, with 2000
pods on 200 Nodes: 1000 terms of anti-affinity blocked the event loop for 2.3 s, 1000 spread
constraints for 2.4 s, and 1000 host ports for 0.6 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from annotations import Problem
from scheduler.core.comparison_cost import MOST_TERMS_READ, MOST_WORDS_READ
from scheduler.core.node_suitability import Term
from scheduler.kube.demands import apart_of, near_of, ports_of, spread_of
from scheduler.kube.wire import Affinity, Container, Pod, PodAffinity

MOST_CONTAINERS: Final = 128
MOST_AMOUNTS: Final = 512
"""Requests and limits of all containers together."""
MOST_HOST_PORTS: Final = 64
MOST_VOLUMES: Final = 256
MOST_TOLERATIONS: Final = 64
MOST_LABELS: Final = 64
"""Entries of the nodeSelector."""
MOST_NODE_TERMS: Final = 64
MOST_NODE_EXPRESSIONS: Final = 64
"""Expressions in all terms of the required node affinity: each is evaluated for each Node."""
MOST_NODE_WORDS: Final = 384
"""Expressions and values of the required node affinity. A list of Nodes by name fits in."""
_NONE: Final = PodAffinity()


_Row = tuple[str, int, str, int]
"""A field of the spec, the length of its list, what that is a number of, and the limit."""


def excess(pod: Pod) -> Problem | None:
    """The problem with the first list of the spec that is too long; None if none is."""
    for field, length, what, most in _rows(pod):
        if length > most:
            expected = f"at most {most}: the scheduler reads them again at each look at the pod"
            return Problem(field, f"{length} {what}", expected)
    return None


def _rows(pod: Pod) -> Iterator[_Row]:
    """The lengths of lists are checked first: their contents are counted only if the lists are
    short.
    """
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    yield ("spec.containers", len(containers), "containers", MOST_CONTAINERS)
    yield ("spec.containers.resources", _resource_count(containers), "amounts", MOST_AMOUNTS)
    ports = len(ports_of(pod))
    yield ("spec.containers.ports", ports, "host ports", MOST_HOST_PORTS)
    yield ("spec.volumes", len(spec.volumes), "volumes", MOST_VOLUMES)
    yield ("spec.tolerations", len(spec.tolerations), "tolerations", MOST_TOLERATIONS)
    yield ("spec.nodeSelector", len(spec.node_selector), "labels", MOST_LABELS)
    if spec.affinity is not None or spec.topology_spread_constraints:
        yield from _about_nodes(spec.wishes.terms or ())
        yield from _about_pods(pod)


def _about_nodes(terms: tuple[Term, ...]) -> Iterator[_Row]:
    """The lengths of what a pod says about its Nodes, each with its limit."""
    field = "spec.affinity.nodeAffinity"
    yield (field, len(terms), "terms", MOST_NODE_TERMS)
    found = [it for term in terms for it in (*term.match_expressions, *term.match_fields)]
    yield (field, len(found), "expressions", MOST_NODE_EXPRESSIONS)
    words = sum(1 + len(it.values) for it in found)
    yield (field, words, "expressions and values", MOST_NODE_WORDS)


def _about_pods(pod: Pod) -> Iterator[_Row]:
    affinity = pod.spec.affinity or Affinity()
    for name, found, read in (
        ("spec.affinity.podAffinity", affinity.pod_affinity, near_of),
        ("spec.affinity.podAntiAffinity", affinity.pod_anti_affinity, apart_of),
    ):
        required = _NONE if found is None else found
        terms = len(required.required_during_scheduling_ignored_during_execution)
        yield (name, terms, "terms", MOST_TERMS_READ)
        yield (name, _highest(it.words for it in read(pod)), "words in a term", MOST_WORDS_READ)
    name, constraints = "spec.topologySpreadConstraints", pod.spec.topology_spread_constraints
    yield (name, len(constraints), "constraints", MOST_TERMS_READ)
    selectors = filter(None, (it.selector for it in spread_of(pod)))
    yield (name, _highest(it.words for it in selectors), "words in a constraint", MOST_WORDS_READ)


def _resource_count(containers: Iterable[Container]) -> int:
    found: Iterable[Mapping[str, object]]
    found = (it for c in containers for it in (c.resources.requests, c.resources.limits))
    return sum(map(len, found))


def _highest(counts: Iterable[int]) -> int:
    return max(counts, default=0)
