"""Finds requirements of a pod that nobody would honour: they are refused with a message, or the
site allows them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from annotations import Problem
from scheduler.core.comparison_cost import MOST_CONSTRAINTS, MOST_TERMS, MOST_TEXTS, too_much
from scheduler.core.event_reasons import Reason
from scheduler.core.facts import Remark
from scheduler.core.ignorable import Ignorable
from scheduler.core.node_requests import is_extended
from scheduler.kube.demands import apart_of, near_of, spread_of
from scheduler.kube.wire import Pod, PodSpec, Quantity
from scheduler.nodes.fit import NodeFit
from scheduler.nodes.volumes import Volumes
from scheduler.policy.rulebook import Rulebook

_RIGHT: Final = (
    "this scheduler may not read the pods of all namespaces and the Nodes "
    "(--pod-access, --node-access)"
)
_NAMESPACES: Final = (
    "namespaces by name, or a namespaceSelector on kubernetes.io/metadata.name alone: this "
    "scheduler reads no other labels of Namespaces"
)
_DEVICES: Final = (
    "no ResourceClaims: Slurm chooses the Node, and nothing is allocated for them; ask for devices "
    "by resources.limits"
)
_FEWER: Final = (
    f"at most {MOST_TERMS} required podAffinity and podAntiAffinity terms and DoNotSchedule "
    f"constraints, of the latter at most {MOST_CONSTRAINTS}, with {MOST_TEXTS} labels, values and "
    "namespaces in them: each is compared with all pods of the cluster"
)
_HUGE: Final = "hugepages-"


class Requirements:
    """Finds the requirements of a pod that cannot be honoured. `ignored` are those that the site
    allows for all pods; a rule of the policy may allow them for some pods.
    """

    def __init__(
        self,
        fit: NodeFit,
        volumes: Volumes,
        *,
        rulebook: Rulebook,
        ignored: Collection[Ignorable],
        devices: Mapping[str, str],
    ) -> None:
        self._fit = fit
        self._volumes = volumes
        self._rulebook = rulebook
        self._ignored = frozenset(ignored)
        self._devices = devices

    @property
    def readable(self) -> bool:
        """Whether this process may read what requirements are about: all pods, and the Nodes."""
        return self._fit.readable

    def judge(self, pod: Pod) -> tuple[tuple[Problem, ...], tuple[Remark, ...]]:
        """Why the pod is refused, and remarks about requirements that are ignored."""
        if self._fit.readable and not _asks_for_more(pod.spec):
            return (), ()
        costly = too_much((*near_of(pod), *apart_of(pod)), spread_of(pod))
        if costly:  # the site cannot allow this, because others would pay for it
            return (Problem("spec.affinity, topologySpreadConstraints", costly, _FEWER),), ()
        found = tuple(self._unmet(pod))
        if not found:
            return (), ()
        ignored = self._ignored | self._rulebook.ignored(pod)
        problems = tuple(problem for kind, problem in found if kind not in ignored)
        passed = tuple(_remark(problem) for kind, problem in found if kind in ignored)
        return problems, passed

    def _unmet(self, pod: Pod) -> Iterator[tuple[Ignorable, Problem]]:
        yield from self._about_pods(pod)
        for problem in self._volumes.problems(pod):
            yield "volumes", problem
        for claim in pod.spec.resource_claims:
            yield "resource-claims", Problem(f"spec.resourceClaims[{claim.name}]", "set", _DEVICES)

    def _about_pods(self, pod: Pod) -> Iterator[tuple[Ignorable, Problem]]:
        """What depends on other pods. If they can be read, only the terms that cannot be evaluated
        (`namespaceSelector`); otherwise all of it, and a host port too.
        """
        if self._fit.readable:
            yield from _unreadable(pod)
            return
        for name, terms in (("podAffinity", near_of(pod)), ("podAntiAffinity", apart_of(pod))):
            if terms:
                expected = f"preferredDuringSchedulingIgnoredDuringExecution: {_RIGHT}"
                yield "pod-affinity", Problem(f"spec.affinity.{name}", "required", expected)
        for constraint in spread_of(pod):
            field = f"spec.topologySpreadConstraints[{constraint.topology_key}].whenUnsatisfiable"
            expected = f"ScheduleAnyway: {_RIGHT}"
            yield "topology-spread", Problem(field, "DoNotSchedule", expected)
        yield from self._about_nodes(pod)

    def _about_nodes(self, pod: Pod) -> Iterator[tuple[Ignorable, Problem]]:
        """Host ports, and resources that Slurm does not count, depend on the other pods of the
        Node.
        """
        spec = pod.spec
        containers = [("spec.initContainers", it) for it in spec.init_containers]
        containers += [("spec.containers", it) for it in spec.containers]
        for parent, container in containers:
            where = f"{parent}[{container.name}]"
            for port in container.ports:
                if port.host_port > 0:
                    expected = f"no port of the Node, so no hostNetwork either: {_RIGHT}"
                    field = f"{where}.ports.hostPort"
                    yield "host-ports", Problem(field, str(port.host_port), expected)
            yield from self._uncounted(where, container.resources.requests)
        if spec.resources is not None:
            yield from self._uncounted("spec", spec.resources.requests)

    def _uncounted(
        self, where: str, requests: Mapping[str, Quantity]
    ) -> Iterator[tuple[Ignorable, Problem]]:
        for name, amount in requests.items():
            if self._unknown(name):
                field = f"{where}.resources.requests.{name}"
                yield "resources", Problem(field, str(amount), _countable(name))

    def _unknown(self, name: str) -> bool:
        return name not in self._devices and (is_extended(name) or name.startswith(_HUGE))


def _countable(name: str) -> str:
    return (
        f"a resource that Slurm counts as gres (--device-resources={name}=GRES), or a scheduler "
        f"that counts it itself: {_RIGHT}"
    )


def _asks_for_more(spec: PodSpec) -> bool:
    """Whether a pod requires anything but its resources. Most pods do not."""
    return bool(
        spec.affinity or spec.topology_spread_constraints or spec.volumes or spec.resource_claims
    )


def _unreadable(pod: Pod) -> Iterator[tuple[Ignorable, Problem]]:
    for name, terms in (("podAffinity", near_of(pod)), ("podAntiAffinity", apart_of(pod))):
        if not all(term.readable for term in terms):
            problem = Problem(f"spec.affinity.{name}.namespaceSelector", "set", _NAMESPACES)
            yield "pod-affinity", problem


def _remark(problem: Problem) -> Remark:
    text = f"The site allows that this requirement is ignored: {problem.text}"
    return Remark(Reason.REQUIREMENT_IGNORED, text)
