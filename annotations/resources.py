"""CPU, memory and devices of a pod, counted as kube-scheduler counts them.

A pod needs the most that it holds at any time: first each init container together with the sidecars
that were started before it, then all containers together with all sidecars. The overhead of its
runtime class is added. Resources of the pod as a whole (pod-level resources) take precedence over
those of its containers.

`pod_gres.py` makes the text of the devices for Slurm.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from annotations.gpu_type import UnknownTypeError, gpu_type
from annotations.model import ContainerResources, PodView, Rules
from annotations.problems import NOT_SET, Problem
from annotations.quantity import NANOS, divide_up, parse_quantity

# Slurm's cpus_per_task has 16 bits, and its two largest values have meanings (slurm.h).
_MOST_CPUS = 2**16 - 3
# The most that `slurmapi` sends of each.
_MOST_MIB = 2**31 - 1
_MOST_DEVICES = 10**9 - 1
_GPU = "gpu"
_MIB = 2**20 * NANOS
# The resources that may be set for a pod as a whole and that Slurm counts.
_OF_PODS = frozenset({"cpu", "memory"})
_QUANTITY = "a Kubernetes quantity of at least 0, such as 500m, 2 or 1.5Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Whole CPUs, MiB and devices of a pod; `devices` has a count by gres, "gpu" or "gpu:h100"."""

    cpus: int
    memory_mib: int
    devices: Mapping[str, int]


class _Amounts(msgspec.Struct, frozen=True):
    """The amounts of one resource, in billionths of its unit, by the place they were read at."""

    containers: list[int]
    init_containers: list[tuple[int, bool]]
    overhead: int
    pod_request: int | None = None
    pod_limit: int | None = None

    @property
    def requested(self) -> int:
        """The pod's own request, otherwise that of its containers, otherwise the pod's limit, as
        the API server defaults it (KEP-2837).
        """
        if self.pod_request is not None:
            return self.pod_request
        return self._by_containers or self.pod_limit or 0

    @property
    def _by_containers(self) -> int:
        sidecars = peak = 0
        for amount, restartable in self.init_containers:
            peak = max(peak, sidecars + amount)
            sidecars += amount if restartable else 0
        return max(peak, sidecars + sum(self.containers))

    @property
    def total(self) -> int:
        return self.requested + self.overhead


@dataclass(slots=True)
class _QuantityReader:
    """Reads the quantities of one pod and collects their problems."""

    pod: PodView
    problems: list[Problem] = field(default_factory=list)

    def amounts(self, resource: str, *, whole: bool = False) -> _Amounts:
        pod = self.pod
        return _Amounts(
            [
                self._of_container(path, container, resource=resource, whole=whole)
                for path, container in _paths("spec.containers", pod.containers)
            ],
            [
                (
                    self._of_container(path, container, resource=resource, whole=whole),
                    container.restartable,
                )
                for path, container in _paths("spec.initContainers", pod.init_containers)
            ],
            self._amount(f"spec.overhead.{resource}", pod.overhead.get(resource), whole=whole),
            self._of_pod("requests", pod.requests, resource),
            self._of_pod("limits", pod.limits, resource),
        )

    def _of_pod(self, kind: str, values: Mapping[str, str], resource: str) -> int | None:
        """The pod-level value; None for devices, which a pod cannot request as a whole."""
        if resource not in _OF_PODS or resource not in values:
            return None
        return self._amount(f"spec.resources.{kind}.{resource}", values[resource], whole=False)

    def _of_container(
        self, path: str, container: ContainerResources, *, resource: str, whole: bool
    ) -> int:
        kind, value = "requests", container.requests.get(resource)
        if value is None:
            kind, value = "limits", container.limits.get(resource)
        return self._amount(f"{path}.resources.{kind}.{resource}", value, whole=whole)

    def _amount(self, path: str, value: str | None, *, whole: bool) -> int:
        if value is None:
            return 0
        try:
            amount = parse_quantity(value)
        except ValueError:
            amount = -1
        if amount < 0:
            return self._refuse(path, value, _QUANTITY)
        if whole and amount % NANOS:
            return self._refuse(path, value, "a whole number of devices")
        return amount

    def _refuse(self, path: str, value: str, expected: str) -> int:
        self.problems.append(Problem(path, value, expected))
        return 0

    def required(self, resource: str, *, unit: int) -> int:
        """The amount in whole units, rounded up. Adds a problem if nothing is requested besides
        overhead.
        """
        known = len(self.problems)
        amounts = self.amounts(resource)
        if not amounts.requested and len(self.problems) == known:
            self.problems.append(_missing_request(self.pod, resource))
        return divide_up(amounts.total, unit)

    def limit(self, resource: str, amount: int, *, most: int, unit: str = "") -> None:
        """Add a problem if the pod asks for more than a job can."""
        if amount > most:
            field = f"spec.containers[*].resources.requests.{resource}"
            self.problems.append(Problem(field, f"{amount}{unit}", f"at most {most}{unit}"))


def read_resources(pod: PodView, rules: Rules) -> Resources | list[Problem]:
    """The resources of the pod's job, or all that is wrong with the pod's requests."""
    reader = _QuantityReader(pod)
    cpus = reader.required("cpu", unit=NANOS)
    reader.limit("cpu", cpus, most=_MOST_CPUS)
    memory_mib = reader.required("memory", unit=_MIB)
    reader.limit("memory", memory_mib, most=_MOST_MIB, unit=" MiB")
    devices = _devices(reader, rules)
    if reader.problems:
        return reader.problems
    return Resources(cpus=cpus, memory_mib=memory_mib, devices=devices)


def _devices(reader: _QuantityReader, rules: Rules) -> dict[str, int]:
    """The count of devices by gres. GPUs get the type that the pod wants, and resources that map to
    the same gres are added up.
    """
    counts: dict[str, int] = {}
    for resource, gres in rules.device_resources.items():
        count = reader.amounts(resource, whole=True).total // NANOS
        reader.limit(resource, count, most=_MOST_DEVICES)
        if count:
            named = _typed(reader, rules) if gres == _GPU else gres
            counts[named] = counts.get(named, 0) + count
    return counts


def _typed(reader: _QuantityReader, rules: Rules) -> str:
    try:
        kind = gpu_type(reader.pod, rules)
    except UnknownTypeError as unknown:
        if unknown.problem not in reader.problems:
            reader.problems.append(unknown.problem)
        return _GPU
    return f"{_GPU}:{kind}" if kind else _GPU


def _missing_request(pod: PodView, resource: str) -> Problem:
    named = ",".join(_container_names(pod.containers))
    stated = {container.requests.get(resource, NOT_SET) for container in pod.containers}
    return Problem(
        f"spec.containers[{named}].resources.requests.{resource}",
        stated.pop() if len(stated) == 1 else NOT_SET,
        f"a {resource} request above 0 in at least one container",
    )


def _paths(
    parent: str, containers: Iterable[ContainerResources]
) -> Iterator[tuple[str, ContainerResources]]:
    containers = tuple(containers)
    for name, container in zip(_container_names(containers), containers, strict=True):
        yield f"{parent}[{name}]", container


def _container_names(containers: Iterable[ContainerResources]) -> list[str]:
    return [container.name or str(index) for index, container in enumerate(containers)]
