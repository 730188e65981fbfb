"""What a pod's spec demands of a Node and of other pods, in the types of the core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Final

from scheduler.core.comparison_cost import MOST_TERMS_READ, MOST_WORDS_READ
from scheduler.core.labels import Selector, selector
from scheduler.core.node_requests import PLAIN, Amounts, ContainerRequests, requested
from scheduler.core.pod_affinity import PodTerm
from scheduler.core.ports import HostPort, host_port
from scheduler.core.spread import Constraint
from scheduler.kube.wire import (
    Container,
    ContainerStatus,
    LabelSelector,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    Quantity,
    Resident,
    TopologySpreadConstraint,
)

_HARD = "DoNotSchedule"
_ALWAYS = "Always"
# Most pods have a few containers that request a few resources, and nothing else that counts. It is
# counted once for all pods of a template. This is the most containers and names together; a name
# has up to 317 bytes.
_FEW: Final = 16
MOST_REQUESTS_READ: Final = 1024
"""Limit for a pod's containers and the resources that they name, together; as many again for its
init containers. What comes after is not read. A waiting pod with half as many is refused.
"""

_Requests = tuple[tuple[tuple[str, Quantity], ...], ...]
"""What each container requests, by name."""


def requests_of(pod: Resident) -> Amounts:
    """The amounts of resources that the pod requests of its Node."""
    if _is_plain(pod) and _are_few(pod.spec.containers):
        asked = tuple([tuple(it.resources.requests.items()) for it in pod.spec.containers])
        return _requested_by(asked)
    spec, status = pod.spec, pod.status
    said = {it.name: it for it in (*status.init_container_statuses, *status.container_statuses)}
    resize = pod.condition("PodResizePending")
    return requested(
        _container_requests(spec.containers, said),
        _container_requests(spec.init_containers, said),
        whole={} if spec.resources is None else _first(spec.resources.requests),
        overhead=_first(spec.overhead),
        infeasible=resize is not None and resize.reason == "Infeasible",
    )


def has_no_sizes(pod: Resident) -> bool:
    """Whether no kubelet has reported what the pod's containers have, nor refused to resize them.
    Then its spec alone says what it requests.
    """
    status = pod.status
    if status.container_statuses or status.init_container_statuses:
        return False
    return pod.condition("PodResizePending") is None


def _is_plain(pod: Resident) -> bool:
    """Whether the requests of its containers are all that counts: nobody has resized it."""
    spec, status = pod.spec, pod.status
    if spec.init_containers or spec.overhead or spec.resources is not None:
        return False
    for said in status.container_statuses:
        if said.resources is not None or said.allocated_resources:
            return False
    return True


def _are_few(containers: tuple[Container, ...]) -> bool:
    """Whether there are so few containers and requests that it pays to keep the result."""
    count = len(containers)
    return count <= _FEW and count + sum([len(it.resources.requests) for it in containers]) <= _FEW


@lru_cache(maxsize=256)
def _requested_by(asked: _Requests) -> Amounts:
    return requested([ContainerRequests(dict(it)) for it in asked])


def ports_of(pod: Resident, *, most: int | None = None) -> tuple[HostPort, ...]:
    """The host ports that the pod's containers and sidecars use, or only the first `most`."""
    return tuple(islice(_ports(pod), most))


def _ports(pod: Resident) -> Iterator[HostPort]:
    lasting = [it for it in pod.spec.init_containers if it.restart_policy == _ALWAYS]
    for container in (*lasting, *pod.spec.containers):
        for port in container.ports:
            if port.host_port > 0:
                yield host_port(port.host_port, port.protocol, port.host_ip)


def near_of(pod: Pod) -> tuple[PodTerm, ...]:
    """The pod's required pod affinity."""
    affinity = pod.spec.affinity
    return () if affinity is None else _terms(pod, affinity.pod_affinity)


def apart_of(pod: Resident) -> tuple[PodTerm, ...]:
    """The pod's required pod anti-affinity."""
    affinity = pod.spec.affinity
    return () if affinity is None else _terms(pod, affinity.pod_anti_affinity)


def apart_read(pod: Resident) -> tuple[PodTerm, ...]:
    """The required pod anti-affinity that counts for a pod on a Node: the first terms, without
    those that have too many words. The others are never built.
    """
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    found = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    first = found[:MOST_TERMS_READ]
    own = pod.metadata.namespace
    return tuple([_term(it, own) for it in first if _words(it) <= MOST_WORDS_READ])


def spread_of(pod: Pod) -> tuple[Constraint, ...]:
    """The pod's topology spread constraints with whenUnsatisfiable: DoNotSchedule."""
    found = pod.spec.topology_spread_constraints
    return tuple(_constraint(pod, it) for it in found if it.when_unsatisfiable == _HARD)


def depends_on_pods(pod: Pod) -> bool:
    """Whether other pods decide where this one may go, because it has host ports, required pod
    affinity or anti-affinity, or a topology spread constraint.
    """
    return bool(ports_of(pod, most=1)) or _spreads(pod) or _has_terms(pod)


def _spreads(pod: Pod) -> bool:
    found = pod.spec.topology_spread_constraints
    return any(it.when_unsatisfiable == _HARD for it in found)


def _has_terms(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    both = (affinity.pod_affinity, affinity.pod_anti_affinity)
    return any(
        it is not None and it.required_during_scheduling_ignored_during_execution for it in both
    )


def has_claims(pod: Pod) -> bool:
    """Whether a volume of the pod has a PersistentVolumeClaim. A pod may have a thousand."""
    return next(_claims(pod), None) is not None


def claims_of(pod: Pod) -> tuple[tuple[str, str], ...]:
    """The pod's volumes with a PersistentVolumeClaim, as pairs of volume name and claim name."""
    return tuple(_claims(pod))


def _claims(pod: Pod) -> Iterator[tuple[str, str]]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.name, volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield volume.name, f"{pod.metadata.name}-{volume.name}"


def _container_requests(
    containers: Iterable[Container], statuses: dict[str, ContainerStatus]
) -> Iterator[ContainerRequests]:
    """What each container requests, and what its status says that it has now."""
    left = MOST_REQUESTS_READ
    for container in containers:
        status = statuses.get(container.name)
        found = None if status is None else status.resources
        asked = _first(container.resources.requests, left)
        yield ContainerRequests(
            asked,
            restartable=container.restart_policy == _ALWAYS,
            actuated=None if found is None else _first(found.requests, left),
            allocated={} if status is None else _first(status.allocated_resources, left),
        )
        left -= 1 + len(asked)
        if left <= 0:
            return


def _first(given: Mapping[str, Quantity], most: int = MOST_REQUESTS_READ) -> Mapping[str, Quantity]:
    """The amounts; if they are more than `most`, the first ones and those that every Node has."""
    if len(given) <= most:
        return given
    plain = {name: given[name] for name in PLAIN if name in given}
    return plain | dict(islice(given.items(), most))


def _terms(pod: Resident, affinity: PodAffinity | None) -> tuple[PodTerm, ...]:
    if affinity is None:
        return ()
    found = affinity.required_during_scheduling_ignored_during_execution
    return tuple(_term(it, pod.metadata.namespace) for it in found)


def _term(term: PodAffinityTerm, own: str) -> PodTerm:
    named = tuple(sorted(term.namespaces))
    if not named and term.namespace_selector is None:
        named = (own,)
    return PodTerm(
        term.topology_key, _selector(term.label_selector), named, _selector(term.namespace_selector)
    )


def _words(term: PodAffinityTerm) -> int:
    """How many words the term has once it is built (`PodTerm.words`)."""
    selectors = [it for it in (term.label_selector, term.namespace_selector) if it is not None]
    words = len(term.namespaces)
    if not words and term.namespace_selector is None:
        words = 1
    for found in selectors:
        words += 2 * len(found.match_labels)
        words += sum([1 + len(it.values) for it in found.match_expressions])
    return words


def _constraint(pod: Pod, given: TopologySpreadConstraint) -> Constraint:
    labels = pod.metadata.labels
    also = tuple((key, labels[key]) for key in given.match_label_keys if key in labels)
    return Constraint(
        max_skew=given.max_skew,
        topology_key=given.topology_key,
        selector=_selector(given.label_selector, *also),
        min_domains=given.min_domains or 1,
        by_affinity=given.node_affinity_policy != "Ignore",
        by_taints=given.node_taints_policy == "Honor",
    )


def _selector(given: LabelSelector | None, *also: tuple[str, str]) -> Selector | None:
    if given is None:
        return None
    return selector(given.match_labels, given.match_expressions, *also)
